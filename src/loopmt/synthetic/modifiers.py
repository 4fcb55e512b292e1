# ruff: noqa: E501 (a row is a word)
"""Adjectives, manners, times and places: size, concept, properties | English | French | Spanish | German."""

from __future__ import annotations

ADJECTIVES = """
tiny big animal thing building furniture vehicle plant tall clothes opening room area | big / large | <grand | grande | groß
tiny small animal thing building furniture vehicle plant tall clothes opening room area child | small | <petit | <pequeño | klein
tiny old person -child animal device thing building furniture vehicle clothes opening text tall mail | old | <vieux vieille vieux* vieilles | viejo | alt
small young person animal | young | <jeune | <joven jóvenes | jung
tiny new device thing building furniture vehicle clothes text opening show mail | new | <nouveau nouvelle | nuevo | neu
full tall man woman boy girl tree king queen | tall | <grand | alto | groß
tiny red clothes vehicle plant furniture opening thing apple | red | rouge | rojo | rot
small blue clothes vehicle furniture opening thing | blue | bleu | azul | blau
full green clothes vehicle furniture opening thing | green | vert | verde | grün
small white clothes vehicle animal furniture opening thing | white | blanc blanche | blanco | weiß
small black clothes vehicle animal furniture opening thing | black | noir | negro | schwarz
full yellow clothes vehicle plant furniture thing | yellow | jaune | amarillo | gelb
full brown clothes animal furniture thing opening | brown | brun / marron marron marron marron | marrón marrones | braun
tiny beautiful woman girl animal clothes plant building text music art area | beautiful | <beau belle | <hermoso / bonito / bello | schön
full pretty clothes girl plant | pretty | <joli | bonito / lindo | hübsch
full ugly animal clothes building furniture | ugly / unattractive | laid | feo | hässlich
tiny good food text show friend_m friend_f | good | <bon bonne | bueno | gut
full bad food text show idea | bad | <mauvais | malo | schlecht
tiny happy person ~ | happy | heureux heureuse / content | feliz / contento | glücklich
small sad person ~ | sad | triste | triste | traurig
tiny tired person animal ~ | tired | fatigué | cansado | müde
small ill person animal ~ | ill / sick | malade | enfermo | krank
full angry person ~ | angry | fâché / en_colère en_colère en_colère en_colère | enfadado / enojado | böse / wütend
small rich person | rich | riche | rico:ser | reich
full poor person | poor | pauvre | pobre | arm
full strong person animal | strong | fort | fuerte | stark
full clever person animal | clever / intelligent | intelligent | inteligente / listo:ser | klug / intelligent
full kind person | kind / nice | gentil gentille | amable / simpático | nett / freundlich
full famous trade building | famous / well-known | célèbre / connu | famoso / conocido | berühmt / bekannt
full brave person | brave | courageux courageuse | valiente | mutig / tapfer
full lazy person animal | lazy | paresseux paresseuse | perezoso / vago | faul
full shy person | shy | timide | tímido | schüchtern
full hot hot ~ | hot | chaud | caliente | heiß
full warm hot ~ | warm | chaud | caliente | warm
small cold hot drink ~ | cold | froid | frío | kalt
full fresh food | fresh | frais fraîche | fresco | frisch
full sweet sweet | sweet | sucré | dulce | süß
full expensive thing clothes vehicle building furniture | expensive | cher chère | caro | teuer teur
full long text show bridge | long | <long longue | largo | lang
full short text show | short | court | corto | kurz
full heavy device thing furniture | heavy | lourd | pesado | schwer
full light thing | light | léger légère | ligero | leicht
full difficult saying text | difficult / hard | difficile | difícil difíciles | schwierig / schwer
full easy saying text | easy / simple | facile / simple | fácil fáciles / sencillo | leicht / einfach
full interesting text show saying | interesting | intéressant | interesante | interessant
full important text saying | important | important | importante | wichtig
full clean clothes dish room vehicle ~ | clean | propre | limpio | sauber
full dirty clothes dish room vehicle ~ | dirty | sale | sucio | schmutzig
full empty container dish ~ | empty | vide | vacío | leer
full full container dish ~ | full | plein | lleno | voll
full open opening ~ | open | ouvert | abierto | offen
full closed opening ~ | closed / shut | fermé | cerrado | geschlossen
full broken machine fragile ~ | broken | cassé | roto | kaputt
full round ball table mirror clock | round | rond | redondo | rund
"""

MANNERS = """
small slowly dance work run swim speak | slowly | lentement | despacio / lentamente | langsam
small well dance sing sleep cook swim work | well | !bien | bien | gut
full fast run swim work speak | fast / quickly | vite / rapidement | rápido / deprisa | schnell
full badly dance sing sleep cook | badly | !mal | mal | schlecht
full quietly sing speak | quietly | doucement | en_voz_baja | leise
full loudly laugh cry sing speak | loudly | fort | fuerte | laut
full a_lot work sleep laugh travel speak dance dream cry | a_lot | !beaucoup | mucho | viel
"""

TIMES = """
tiny yesterday past | yesterday | hier | ayer | gestern
tiny today progressive future state | today | aujourd'hui | hoy | heute
tiny tomorrow future | tomorrow | demain | mañana | morgen
tiny now progressive state | now | maintenant | ahora | jetzt
tiny every_day present | every_day | tous_les_jours / chaque_jour | todos_los_días / cada_día | jeden_Tag / täglich
small last_week past | last_week | la_semaine_dernière | la_semana_pasada | letzte_Woche
small next_week future | next_week | la_semaine_prochaine | la_próxima_semana / la_semana_que_viene | nächste_Woche
full last_year past | last_year | l'année_dernière / l'an_dernier | el_año_pasado | letztes_Jahr
full next_year future | next_year | l'année_prochaine / l'an_prochain | el_año_que_viene / el_próximo_año | nächstes_Jahr
full last_night past | last_night / yesterday_evening | hier_soir | anoche | gestern_Abend
full tonight future progressive | tonight / this_evening | ce_soir | esta_noche | heute_Abend
full tomorrow_morning future | tomorrow_morning | demain_matin | mañana_por_la_mañana | morgen_früh
full every_week present | every_week | toutes_les_semaines / chaque_semaine | todas_las_semanas / cada_semana | jede_Woche
full soon future | soon | bientôt | pronto | bald
full often present frequency | often | souvent | a_menudo | oft
full always present frequency | always | toujours | siempre | immer
full sometimes present frequency | sometimes | parfois / quelquefois | a_veces | manchmal
full rarely present frequency | rarely / seldom | rarement | rara_vez / pocas_veces | selten
"""

PLACES = """
small garden at to open | in the garden > to the garden | dans le jardin > dans le jardin | en el jardín > al jardín | im Garten > in den Garten
small kitchen at to stove | in the kitchen > to the kitchen | dans la cuisine > dans la cuisine | en la cocina > a la cocina | in der Küche > in die Küche
small park at to open | in the park > to the park | dans le parc / au parc > au parc | en el parque > al parque | im Park > in den Park
small school at to | at school > to school | à l'école > à l'école | en la escuela > a la escuela | in der Schule > in die Schule / zur Schule
small market at to open shop | at the market > to the market | au marché > au marché | en el mercado > al mercado | auf dem Markt > auf den Markt / zum Markt
full city at to home shop | in the city > to the city | en ville > en ville | en la ciudad > a la ciudad | in der Stadt > in die Stadt
full village at to home open shop | in the village > to the village | dans le village / au village > au village | en el pueblo > al pueblo | im Dorf > ins Dorf
full house at to home stove | in the house > to the house | dans la maison > dans la maison | en la casa > a la casa | im Haus > ins Haus
full street at open | in the street | dans la rue | en la calle | auf der Straße
full restaurant at to stove | in the restaurant / at the restaurant > to the restaurant | au restaurant > au restaurant | en el restaurante > al restaurante | im Restaurant > ins Restaurant
full library at to | in the library / at the library > to the library | à la bibliothèque > à la bibliothèque | en la biblioteca > a la biblioteca | in der Bibliothek > in die Bibliothek
full office at to | in the office / at the office > to the office | au bureau > au bureau | en la oficina > a la oficina | im Büro > ins Büro
full church at to | in the church > to the church | dans l'église > à l'église | en la iglesia > a la iglesia | in der Kirche > in die Kirche / zur Kirche
full station at to | at the station > to the station | à la gare > à la gare | en la estación > a la estación | am Bahnhof / im Bahnhof > zum Bahnhof
full beach at to open | on the beach / at the beach > to the beach | à la plage / sur la plage > à la plage | en la playa > a la playa | am Strand > an den Strand / zum Strand
full forest at to open | in the forest > to the forest | dans la forêt > dans la forêt | en el bosque > al bosque | im Wald > in den Wald
full hospital at to | in the hospital / at the hospital > to the hospital | à l'hôpital > à l'hôpital | en el hospital > al hospital | im Krankenhaus > ins Krankenhaus
full hotel at to | in the hotel / at the hotel > to the hotel | à l'hôtel > à l'hôtel | en el hotel > al hotel | im Hotel > ins Hotel
full theatre at to | at the theatre > to the theatre | au théâtre > au théâtre | en el teatro > al teatro | im Theater > ins Theater
full cinema at to | at the cinema > to the cinema | au cinéma > au cinéma | en el cine > al cine | im Kino > ins Kino
full mountains at to home open | in the mountains > to the mountains | à la montagne > à la montagne | en la montaña > a la montaña | in den Bergen > in die Berge
full sea water | in the sea | dans la mer | en el mar | im Meer
full river water | in the river | dans la rivière | en el río | im Fluss
full lake water | in the lake | dans le lac | en el lago | im See
"""
