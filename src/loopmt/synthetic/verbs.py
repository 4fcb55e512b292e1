# ruff: noqa: E501 (a row is a word)
"""The verbs: size, concept, frame, aspect, kinds of subject > kinds of object | English | French | Spanish | German.

Frames: intransitive, transitive, ditransitive, goal (to a place), home (in a place), content (that ...), be.
Aspects: `action` goes on for a while, `event` is over at once (no "is finding"), `state` is not an action at all
(no "is knowing"; its past is the imperfect of French and Spanish).
English gives base and past; German infinitive, third person, past, participle, and `s` where its perfect
takes "sein"; a Spanish vowel is what a stressed stem changes to. `/` separates synonyms.
"""

from __future__ import annotations

VERBS = """
tiny sleep intransitive action person animal > | sleep slept | dormir | dormir ue | schlafen schläft schlief geschlafen
small work intransitive action person > | work | travailler | trabajar | arbeiten
tiny dance intransitive action person > | dance | danser | bailar | tanzen
small sing intransitive action person > | sing sang | chanter | cantar | singen singt sang gesungen
small run intransitive action person animal > | run ran | courir | correr | laufen läuft lief gelaufen s / rennen rennt rannte gerannt s
full swim intransitive action person > | swim swam | nager | nadar | schwimmen schwimmt schwamm geschwommen s
tiny laugh intransitive action person > | laugh | rire | reír | lachen
small cry intransitive action person > | cry | pleurer | llorar | weinen
full smile intransitive action person > | smile | sourire | sonreír | lächeln
small play intransitive action child pet > | play | jouer | jugar | spielen
full speak intransitive action person > | speak spoke / talk | parler | hablar | sprechen spricht sprach gesprochen / reden
full travel intransitive action person > | travel travelled | voyager | viajar | reisen reist reiste gereist s
full cook intransitive action person > | cook | cuisiner | cocinar | kochen
full wait intransitive action person > | wait | attendre | esperar | warten
full dream intransitive action person > | dream | rêver | soñar ue | träumen
full shout intransitive action person > | shout | crier | gritar | schreien schreit schrie geschrien
small arrive intransitive event person ride > | arrive | arriver | llegar | an+kommen kommt kam gekommen s
small come intransitive event person > | come came | venir | venir | kommen kommt kam gekommen s
full leave intransitive event person ride > | leave left | partir | salir | ab+fahren fährt fuhr gefahren s
full fall intransitive event child > | fall fell | tomber | caer | fallen fällt fiel gefallen s
full enter intransitive event person > | come_in came_in | entrer | entrar | herein+kommen kommt kam gekommen s
full win intransitive event person > | win won | gagner | ganar | gewinnen gewinnt gewann gewonnen
full live home state person > | live | habiter | vivir | wohnen
small go goal action person > | go went | aller | ir | gehen geht ging gegangen s
full return goal event person > | return | retourner | volver ue / regresar | zurück+gehen geht ging gegangen s
tiny be be state person animal food drink text thing opening building furniture clothes vehicle plant tall room area show device > | be | être | ser | sein
tiny see transitive event person animal > person animal thing building vehicle clothes plant tall furniture show device mail | see saw | voir | ver | sehen sieht sah gesehen
small hear transitive event person > person animal ride music | hear heard | entendre | oír | hören
tiny eat transitive action person > food | eat ate | manger | comer | essen isst aß gegessen
tiny drink transitive action person > drink | drink drank | boire | beber | trinken trinkt trank getrunken
tiny read transitive action person > text | read read | lire | leer | lesen liest las gelesen
small write transitive action person > book letter story poem | write wrote | écrire | escribir | schreiben schreibt schrieb geschrieben
tiny buy transitive event person > thing food drink clothes vehicle house furniture plant newspaper | buy bought | acheter | comprar | kaufen
small sell transitive event person > thing food drink clothes vehicle house furniture plant newspaper | sell sold | vendre | vender | verkaufen
tiny open transitive event person > opening container device | open | ouvrir | abrir | öffnen / auf+machen
small close transitive event person > opening container | close / shut shut | fermer | cerrar ie | schließen schließt schloss geschlossen / zu+machen
tiny find transitive event person > thing person pet clothes money mail | find found | trouver | encontrar ue | finden findet fand gefunden
tiny look_for transitive action person > person pet thing clothes money mail | look_for | chercher | buscar | suchen
full lose transitive event person > thing clothes money mail | lose lost | perdre | perder ie | verlieren verliert verlor verloren
tiny love transitive state person > person | love | aimer | amar / querer | lieben
small know transitive state person > person | know knew | connaître | conocer | kennen kennt kannte gekannt
full hate transitive state person > person | hate | détester | odiar | hassen
small have transitive state person > animal thing vehicle clothes building furniture mail | have had | avoir | tener | haben hat hatte gehabt
small carry transitive action person > thing clothes furniture mail | carry | porter | llevar | tragen trägt trug getragen
small wear transitive action person > clothes | wear wore | porter | llevar | tragen trägt trug getragen
small wash transitive action person > clothes vehicle pet dish | wash | laver | lavar | waschen wäscht wusch gewaschen
full clean transitive action person > furniture vehicle room opening | clean | nettoyer | limpiar | putzen
full paint transitive action person > art tall plant castle | paint | peindre | pintar | malen
full draw transitive action person > animal tall plant building vehicle | draw drew | dessiner | dibujar | zeichnen
full break transitive event person > fragile | break broke | casser | romper | zerbrechen zerbricht zerbrach zerbrochen
full repair transitive action person > machine vehicle furniture opening lock | repair / mend | réparer | reparar / arreglar | reparieren
full cut transitive action person > bread cheese meat cake apple pear orange tomato potato | cut cut | couper | cortar | schneiden schneidet schnitt geschnitten
full prepare transitive action person > soup meat egg rice fish potato coffee tea cake salad | prepare | préparer | preparar | zu+bereiten
small help transitive action person > person | help | aider | ayudar | helfen hilft half geholfen
small visit transitive event person > building area | visit | visiter | visitar | besuchen / besichtigen
full invite transitive event person > person | invite | inviter | invitar | ein+laden lädt lud geladen
full kiss transitive event person > person | kiss | embrasser | besar | küssen
full understand transitive state person > person saying | understand understood | comprendre | entender ie / comprender | verstehen versteht verstand verstanden
full forget transitive event person > saying thing clothes money mail | forget forgot | oublier | olvidar | vergessen vergisst vergaß vergessen
full throw transitive event person > toy stone | throw threw | lancer | lanzar / tirar | werfen wirft warf geworfen
full hide transitive event person > thing clothes money mail | hide hid | cacher | esconder | verstecken
full build transitive action person > building vehicle furniture | build built | construire | construir | bauen
full watch transitive action person animal > person animal | watch | regarder / observer | mirar / observar | beobachten
full listen_to transitive action person > music radio | listen_to | écouter | escuchar | hören
full sing_song transitive action person > music | sing sang | chanter | cantar | singen singt sang gesungen
full call transitive event person > person | call | appeler | llamar | an+rufen ruft rief gerufen
full meet transitive event person > person | meet met | rencontrer | conocer | kennen+lernen
full choose transitive event person > thing clothes vehicle plant furniture | choose chose | choisir | elegir i / escoger | wählen / aus+suchen
full pay transitive event person > ticket | pay_for paid_for | payer | pagar | bezahlen
full touch transitive event person > animal clothes plant fragile | touch | toucher | tocar | berühren / an+fassen
full feed transitive action person > animal | feed fed | nourrir | alimentar | füttern
full bite transitive event animal > person | bite bit | mordre | morder ue | beißen beißt biss gebissen
full chase transitive action person animal > pet animal child | chase | poursuivre | perseguir i | verfolgen / jagen
full catch transitive event person > toy animal | catch caught | attraper | atrapar | fangen fängt fing gefangen
full use transitive action person > tool machine | use | utiliser | usar / utilizar | benutzen / verwenden
full learn transitive action person > music saying | learn | apprendre | aprender | lernen
small give ditransitive event person > thing food text clothes plant money | give gave | donner | dar | geben gibt gab gegeben
small show ditransitive event person > thing text clothes plant building vehicle | show | montrer | mostrar ue / enseñar | zeigen
full send ditransitive event person > text thing clothes plant money | send sent | envoyer | enviar / mandar | schicken / senden
full bring ditransitive event person > thing food drink text clothes plant money | bring brought | apporter | traer | bringen bringt brachte gebracht
full lend ditransitive event person > thing text clothes vehicle money | lend lent | prêter | prestar | leihen leiht lieh geliehen
full say content event person > | say said | dire | decir | sagen
full think content state person > | think thought | penser | pensar ie | denken denkt dachte gedacht
full believe content state person > | believe | croire | creer | glauben
full know_that content state person > | know knew | savoir | saber | wissen weiß wusste gewusst
"""
