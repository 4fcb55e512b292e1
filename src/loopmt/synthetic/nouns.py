# ruff: noqa: E501 (a row is a word)
"""The nouns: size from which they are known, concept, kinds | English | French | Spanish | German.

Synonyms stand apart by `/`. French and Spanish give the gender, German the gender and the plural; `m!` is a
German weak noun (den Jungen). A plural that does not follow the rule of its language is given after the noun.
"""

from __future__ import annotations

NOUNS = """
tiny man person stranger male | man men | homme m | hombre m | Mann m Männer
tiny woman person stranger female | woman women | femme f | mujer f | Frau f Frauen
tiny boy person stranger child male | boy | garçon m | niño m / chico m | Junge m! Jungen
tiny girl person stranger child female | girl | fille f | niña f / chica f | Mädchen n Mädchen
small child person child | child children | enfant m | niño m | Kind n Kinder
tiny friend_m person male | friend | ami m | amigo m | Freund m Freunde
tiny friend_f person female | friend | amie f | amiga f | Freundin f Freundinnen
full husband person spouse sole kin male | husband | mari m | marido m / esposo m | Mann m Männer / Ehemann m Ehemänner
full wife person spouse sole kin female | wife wives | femme f / épouse f | mujer f / esposa f | Frau f Frauen / Ehefrau f Ehefrauen
small mother person sole kin female | mother | mère f | madre f | Mutter f Mütter
small father person sole kin male | father | père m | padre m | Vater m Väter
small brother person kin male | brother | frère m | hermano m | Bruder m Brüder
small sister person kin female | sister | sœur f | hermana f | Schwester f Schwestern
small son person kin child male | son | fils m | hijo m | Sohn m Söhne
small daughter person kin child female | daughter | fille f | hija f | Tochter f Töchter
full uncle person kin male | uncle | oncle m | tío m | Onkel m Onkel
full aunt person kin female | aunt | tante f | tía f | Tante f Tanten
full grandmother person kin female | grandmother | grand-mère f grands-mères | abuela f | Großmutter f Großmütter / Oma f Omas
full grandfather person kin male | grandfather | grand-père m grands-pères | abuelo m | Großvater m Großväter / Opa m Opas
full cousin_m person kin male | cousin | cousin m | primo m | Cousin m Cousins / Vetter m Vettern
full cousin_f person kin female | cousin | cousine f | prima f | Cousine f Cousinen
small teacher_m person trade male | teacher | professeur m | profesor m | Lehrer m Lehrer
small teacher_f person trade female | teacher | professeure f | profesora f | Lehrerin f Lehrerinnen
small doctor_m person trade male | doctor | médecin m | médico m | Arzt m Ärzte
full doctor_f person trade female | doctor | médecin f | médica f | Ärztin f Ärztinnen
full student_m person trade male | student | étudiant m | estudiante m | Student m! Studenten
full student_f person trade female | student | étudiante f | estudiante f | Studentin f Studentinnen
full singer_m person stranger trade male | singer | chanteur m | cantante m | Sänger m Sänger
full singer_f person stranger trade female | singer | chanteuse f | cantante f | Sängerin f Sängerinnen
full neighbour_m person male | neighbour | voisin m | vecino m | Nachbar m! Nachbarn
full neighbour_f person female | neighbour | voisine f | vecina f | Nachbarin f Nachbarinnen
full writer_m person stranger trade male | writer | écrivain m | escritor m | Schriftsteller m Schriftsteller
full writer_f person stranger trade female | writer | écrivaine f | escritora f | Schriftstellerin f Schriftstellerinnen
full farmer person stranger trade male | farmer | fermier m / paysan m | granjero m / campesino m | Bauer m! Bauern
full baker person stranger trade male | baker | boulanger m | panadero m | Bäcker m Bäcker
full cook_m person trade male | cook | cuisinier m | cocinero m | Koch m Köche
full cook_f person trade female | cook | cuisinière f | cocinera f | Köchin f Köchinnen
full painter_m person stranger trade male | painter | peintre m | pintor m | Maler m Maler
full gardener person trade male | gardener | jardinier m | jardinero m | Gärtner m Gärtner
full king person royal stranger male | king | roi m | rey m | König m Könige
full queen person royal stranger female | queen | reine f | reina f | Königin f Königinnen
full guest person | guest | invité m | invitado m | Gast m Gäste
tiny cat animal pet | cat | chat m | gato m | Katze f Katzen
tiny dog animal pet | dog | chien m | perro m | Hund m Hunde
small horse animal | horse | cheval m chevaux | caballo m | Pferd n Pferde
small bird animal | bird | oiseau m | pájaro m | Vogel m Vögel
small cow animal | cow | vache f | vaca f | Kuh f Kühe
full mouse animal | mouse mice | souris f | ratón m | Maus f Mäuse
full pig animal | pig | cochon m | cerdo m | Schwein n Schweine
full sheep animal | sheep sheep | mouton m | oveja f | Schaf n Schafe
full rabbit animal pet | rabbit | lapin m | conejo m | Kaninchen n Kaninchen
full duck animal | duck | canard m | pato m | Ente f Enten
full hen animal | hen | poule f | gallina f | Huhn n Hühner
full goat animal | goat | chèvre f | cabra f | Ziege f Ziegen
full donkey animal | donkey | âne m | burro m | Esel m Esel
full wolf animal wild stranger | wolf wolves | loup m | lobo m | Wolf m Wölfe
full bear animal wild stranger | bear | ours m | oso m | Bär m! Bären
full fox animal wild stranger | fox | renard m | zorro m | Fuchs m Füchse
tiny bread food mass | bread | pain m | pan m | Brot n
tiny apple food | apple | pomme f | manzana f | Apfel m Äpfel
tiny soup food mass hot | soup | soupe f | sopa f | Suppe f
small cheese food mass | cheese | fromage m | queso m | Käse m
small meat food mass hot | meat | viande f | carne f | Fleisch n
small egg food hot | egg | œuf m | huevo m | Ei n Eier
small cake food sweet | cake | gâteau m | pastel m / tarta f | Kuchen m Kuchen
full rice food mass hot | rice | riz m | arroz m | Reis m
full fish food mass hot | fish | poisson m | pescado m | Fisch m
full orange food | orange | orange f | naranja f | Orange f Orangen / Apfelsine f Apfelsinen
full pear food | pear | poire f | pera f | Birne f Birnen
full salad food | salad | salade f | ensalada f | Salat m Salate
full potato food hot | potato potatoes | pomme_de_terre f pommes_de_terre | patata f | Kartoffel f Kartoffeln
full tomato food | tomato tomatoes | tomate f | tomate m | Tomate f Tomaten
full chocolate food mass sweet | chocolate | chocolat m | chocolate m | Schokolade f
full butter food mass | butter | beurre m | mantequilla f | Butter f
full ice_cream food mass sweet | ice_cream | glace f | helado m | Eis n
full biscuit food sweet | biscuit | biscuit m / gâteau_sec m gâteaux_secs | galleta f | Keks m Kekse
tiny water drink mass | water | eau f | agua f | Wasser n
tiny milk drink mass hot | milk | lait m | leche f | Milch f
small coffee drink mass hot | coffee | café m | café m | Kaffee m
small tea drink mass hot | tea | thé m | té m | Tee m
full wine drink mass | wine | vin m | vino m | Wein m
full beer drink mass | beer | bière f | cerveza f | Bier n
full juice drink mass | juice | jus m | zumo m | Saft m
tiny book text thing | book | livre m | libro m | Buch n Bücher
tiny letter text mail | letter | lettre f | carta f | Brief m Briefe
small newspaper text mail | newspaper / paper | journal m journaux | periódico m / diario m | Zeitung f Zeitungen
full story text | story | histoire f | historia f | Geschichte f Geschichten
full poem text | poem | poème m | poema m | Gedicht n Gedichte
full word saying | word | mot m | palabra f | Wort n Wörter
full question saying | question | question f | pregunta f | Frage f Fragen
full answer saying | answer | réponse f | respuesta f | Antwort f Antworten
full song music | song | chanson f | canción f | Lied n Lieder
small film show | film | film m | película f | Film m Filme
small picture thing art | picture / painting | tableau m | cuadro m | Bild n Bilder / Gemälde n Gemälde
full photo thing | photo / photograph | photo f | foto f | Foto n Fotos
full map thing | map | carte f | mapa m | Karte f Karten / Landkarte f Landkarten
full playing_card thing | card | carte f | carta f / naipe m | Karte f Karten / Spielkarte f Spielkarten
tiny door opening | door | porte f | puerta f | Tür f Türen
small window opening | window | fenêtre f | ventana f | Fenster n Fenster
small box thing container | box | boîte f | caja f | Kiste f Kisten / Schachtel f Schachteln
small bag thing container | bag | sac m | bolsa f | Tasche f Taschen
full suitcase thing container | suitcase | valise f | maleta f | Koffer m Koffer
full bottle thing container | bottle | bouteille f | botella f | Flasche f Flaschen
tiny house building | house | maison f | casa f | Haus n Häuser
tiny car vehicle | car | voiture f / auto f | coche m | Auto n Autos / Wagen m Wagen
full bicycle vehicle | bicycle / bike | vélo m / bicyclette f | bicicleta f | Fahrrad n Fahrräder / Rad n Räder
full boat vehicle | boat | bateau m | barco m | Boot n Boote
full bus ride | bus | bus m / autobus m | autobús m autobuses | Bus m Busse
full train ride | train | train m | tren m | Zug m Züge
full ship vehicle | ship | navire m / bateau m | barco m | Schiff n Schiffe
tiny table furniture | table | table f | mesa f | Tisch m Tische
small chair furniture | chair | chaise f | silla f | Stuhl m Stühle
full bed furniture | bed | lit m | cama f | Bett n Betten
full cupboard furniture container | cupboard | armoire f / placard m | armario m | Schrank m Schränke
full bench furniture | bench | banc m | banco m | Bank f Bänke
full sofa furniture | sofa / couch | canapé m | sofá m | Sofa n Sofas
full mirror thing fragile | mirror | miroir m / glace f | espejo m | Spiegel m Spiegel
full lamp thing fragile | lamp | lampe f | lámpara f | Lampe f Lampen
small cup thing fragile dish | cup | tasse f | taza f | Tasse f Tassen
full glass thing fragile dish | glass | verre m | vaso m | Glas n Gläser
full plate thing fragile dish | plate | assiette f | plato m | Teller m Teller
full knife thing tool | knife knives | couteau m | cuchillo m | Messer n Messer
full spoon thing tool | spoon | cuillère f | cuchara f | Löffel m Löffel
full fork thing tool | fork | fourchette f | tenedor m | Gabel f Gabeln
tiny key thing tool | key | clé f / clef f | llave f | Schlüssel m Schlüssel
full pen thing tool | pen | stylo m | bolígrafo m | Stift m Stifte / Kugelschreiber m Kugelschreiber
full clock thing machine | clock | horloge f | reloj m | Uhr f Uhren
full watch thing machine | watch | montre f | reloj m | Uhr f Uhren / Armbanduhr f Armbanduhren
small phone thing machine | phone / telephone | téléphone m | teléfono m | Telefon n Telefone
full computer thing machine | computer | ordinateur m | ordenador m | Computer m Computer
full radio thing machine | radio | radio f | radio f | Radio n Radios
full camera thing machine | camera | appareil_photo m appareils_photo | cámara f | Kamera f Kameras
full ball thing toy | ball | ballon m / balle f | pelota f / balón m | Ball m Bälle
full doll thing toy | doll | poupée f | muñeca f | Puppe f Puppen
full umbrella thing | umbrella | parapluie m | paraguas m paraguas | Regenschirm m Regenschirme / Schirm m Schirme
full ring thing | ring | bague f | anillo m | Ring m Ringe
full gift thing | gift / present | cadeau m | regalo m | Geschenk n Geschenke
full stone thing | stone | pierre f | piedra f | Stein m Steine
full ticket thing | ticket | billet m | billete m | Fahrkarte f Fahrkarten
full money cash mass | money | argent m | dinero m | Geld n
small hat clothes | hat | chapeau m | sombrero m | Hut m Hüte
full coat clothes | coat | manteau m | abrigo m | Mantel m Mäntel
small shirt clothes | shirt | chemise f | camisa f | Hemd n Hemden
full dress clothes | dress | robe f | vestido m | Kleid n Kleider
full shoe clothes | shoe | chaussure f | zapato m | Schuh m Schuhe
full skirt clothes | skirt | jupe f | falda f | Rock m Röcke
small flower plant | flower | fleur f | flor f | Blume f Blumen
small tree tall | tree | arbre m | árbol m | Baum m Bäume
full school building | school | école f | escuela f | Schule f Schulen
full church building | church | église f | iglesia f | Kirche f Kirchen
full bridge building | bridge | pont m | puente m | Brücke f Brücken
full castle building | castle | château m | castillo m | Schloss n Schlösser
full lock device | lock | serrure f | cerradura f | Schloss n Schlösser
full garden area | garden | jardin m | jardín m jardines | Garten m Gärten
full kitchen room | kitchen | cuisine f | cocina f | Küche f Küchen
full bedroom room | bedroom | chambre f | dormitorio m / habitación f | Schlafzimmer n Schlafzimmer
full village area | village | village m | pueblo m | Dorf n Dörfer
full city area | city | ville f | ciudad f | Stadt f Städte
"""

NAMES = """
tiny Emma female
tiny Lucas male
small Laura female
small Max male
full Clara female
full Daniel male
full Sara female
full David male
full Julia female
full Bruno male
"""
