"""Words that tell where a noun phrase begins and ends: closed classes, and the commonest of a few open ones."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


class English:
    """In lower case."""

    ONE = _words("a an another each every this one")
    """What begins a phrase about one thing."""
    SEVERAL = _words(
        "two three four five six seven eight nine ten eleven twelve several many few some both all various numerous "
        "these those most dozens multiple"
    )
    """What begins one about more, or stands for them by itself."""
    OTHERS = _words("the my your his her its our their no any")
    DETERMINERS = ONE | SEVERAL | OTHERS
    AFTER_DETERMINERS = SEVERAL - _words("both all some these those most") | _words("one")
    """Which of them a determiner may stand before: the two."""
    BEFORE_DETERMINERS = _words("all both half")
    STOPS = _words(
        "about above across after against along alongside amid amidst among amongst around as at atop before behind "
        "below beneath beside besides between beyond by during for from in into of off on onto out over per since "
        "through throughout to toward towards under underneath until up upon via while with within without like unlike "
        "despite except and or but nor so than then because if when where whether who whom whose which what how why "
        "that though although i you he she it we they me him us them himself herself itself themselves oneself someone "
        "somebody something anyone anything everyone everybody everything nobody nothing others other's is are was "
        "were be been being am has have had do does did can could will would shall should may might must not n't "
        "&apos;re &apos;ve &apos;ll &apos;m &apos;t 're 've 'll 'm 't there here together apart away alone asleep down "
        "outdoors indoors upside upstairs downstairs overhead ahead aloft aside forward forwards backwards sideways "
        "now just also already visible still only too again once twice each either neither else maybe perhaps nearby "
        "underwater sat stood ran held wore took went threw drew made gave got laid lay rode drove flew swam named "
        "dressed called set go get take make play watch enjoy sit wear hold"
    )
    """What no phrase goes on with: prepositions, conjunctions, pronouns, auxiliaries, adverbs of place."""
    STOPS_AFTER_NOUNS = _words("next near outside inside past opposite close high low full ready left past very able")
    """What stands in a phrase before its noun alone."""
    VERBS = _words(
        "sits stands plays holds looks walks runs jumps rides carries takes tries reads chases works uses climbs "
        "prepares wears lies watches catches swings appears lays swims pushes talks attempts kicks sleeps poses "
        "performs leaps throws crouches drives slides cleans pulls paints smiles puts leans gives skateboards makes "
        "helps eats lifts kneels examines rests dances shows hugs enjoys returns waits picks reaches dribbles rolls "
        "squats splashes writes grinds operates touches hangs crawls sings sniffs hits gets stares rows points "
        "descends places spikes sweeps leads paddles relaxes bends turns scales opens chews skis surfs fishes balances "
        "licks goes shakes lounges spins shops flips offers waves floats juggles tosses welds cuts crosses shoots "
        "bowls bites seems serves sets kayaks gestures studies practices skates dresses participates pitches drinks "
        "laughs speaks travels adjusts overlooks ponders faces explores glances hikes crafts comes sees peers inspects "
        "wrestles pauses pedals sips pounces bounces fills repairs barks hops starts drops pours grabs films listens "
        "yells screams trots tackles passes digs blows sells does gathers stops competes fights cooks celebrates "
        "checks follows raises observes flies falls feeds fixes lets begins keeps tends attends displays draws spreads "
        "chops sprints rubs prays steers smokes navigates demonstrates moves stretches tightens strolls jogs rounds"
    )
    """Of one who does something; before a noun the same word may be a noun."""
    NOUNS = _words(
        "building clothing railing painting ring string ceiling king wing wedding evening morning thing spring sling "
        "swing awning crossing parking scaffolding bedding meeting gathering siding stocking wig landing lightning "
        "housing dwelling opening bed shed sled weed seed steed speed feed reed family assembly belly butterfly fly "
        "jelly rally bully lily setting"
    )
    """That look like participles or adverbs."""
    PLURALS = _words("men women people children police feet teeth mice geese cattle gentlemen policemen firemen youths")
    """That do not look like it."""
    SINGULARS = _words("sports christmas gas news canvas lens texas vegas series")
    """That look like plurals."""
    ADJECTIVES = _words(
        "white red blue black little large small green yellow brown older young pink orange old gray grey blond blonde "
        "purple big dark bright tan beautiful open colorful bearded tall short long high thin thick dirty wet cold hot "
        "brunette gold golden silver maroon beige teal navy bald wide narrow empty busy crowded outdoor wooden grassy "
        "rocky sandy snowy striped plaid elderly younger happy shirtless male female asian african american indian "
        "light multicolored furry fluffy muddy clear shallow deep sunny cloudy rainy turquoise lavender red-haired"
    )
    """Between which a comma or "and" may stand: a tall, thin man."""
    CONJUNCTIONS = _words("and or , &amp; &")
    POSSESSIVES = _words("&apos;s 's &apos; '")


class German:
    """In lower case."""

    BEFORE_STRONG = _words("ein kein mein dein sein ihr unser euer")
    """After which no adjective ends in -e."""
    ARTICLES = _words("der die das dem den des")
    """That are relative pronouns too."""
    NUMBERS = _words(
        "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf zweier dreier beide beiden beider vielen viele paar"
    )
    DETERMINERS = (
        BEFORE_STRONG
        | ARTICLES
        | NUMBERS
        | _words(
            "eine einen einem einer eines keine keinen keinem keiner keines meine meinen meinem meiner seine seinen "
            "seinem seiner seines ihre ihren ihrem ihrer ihres unsere unseren unserem unserer deren dessen diese "
            "dieser dieses diesem diesen jede jeder jedes jedem jeden jene mehrere mehreren mehrerer einige einigen "
            "einiger viel vieler alle allen aller manche manchen verschiedene verschiedenen zahlreiche zahlreichen "
            "wenige"
        )
    )
    PREPOSITIONS = _words(
        "in an auf mit von aus bei zu nach vor hinter über unter neben zwischen durch für gegen ohne um seit während "
        "wegen trotz bis entlang"
    )
    STOPS = PREPOSITIONS | _words(
        "im am ins ans aufs zum zur vom beim übers unters durchs fürs ums vorm hinterm überm unterm inmitten außerhalb "
        "innerhalb oberhalb unterhalb gegenüber nahe abseits anhand mithilfe mittels und oder aber sondern doch denn "
        "dass ob weil wenn als wie wo wobei wohin während damit indem bevor nachdem sodass um ich du er sie es wir man "
        "ihn ihm ihnen sich mich mir dich dir uns euch wer was wen wem denen jemand jemanden jemandem etwas nichts "
        "einander miteinander nebeneinander gegeneinander aufeinander hintereinander nicht auch nur noch schon nun "
        "gerade dabei darauf daran darin darunter davor davon dafür dagegen daneben dahinter danach dazu dort hier da "
        "herum hinunter hinauf herunter hinab herab hinaus heraus hinein herein entlang vorbei zusammen draußen "
        "drinnen oben unten vorne vorn hinten links rechts mitten fort los zurück ab hoch nieder empor umher heran "
        "wieder so dann beinahe fast barfuß nachts tagsüber gemeinsam alleine namens bereit hin her weiter zu gerne "
        "gern heute jetzt ebenfalls einzeln bzw. beziehungsweise voller"
    )
    """What no phrase goes on with: prepositions, also with an article in them, conjunctions, pronouns, adverbs."""
    VERBS = _words(
        "ist sind war waren wird werden worden wurde wurden hat haben hatte sein kann können will wollen soll sollen "
        "muss müssen lässt lassen darf möchte steht stehen sitzt sitzen hält halten geht gehen spielt spielen fährt "
        "fahren springt springen macht machen trägt tragen läuft laufen schaut schauen rennt rennen arbeitet arbeiten "
        "liegt liegen posiert posieren blickt blicken spricht sprechen klettert klettern führt führen zeigt zeigen "
        "unterhält unterhalten singt singen sieht sehen befindet befinden bereitet bereiten reitet reiten versucht "
        "versuchen wirft werfen wartet warten lehnt lehnen zieht ziehen liest lesen schläft schlafen schiebt schieben "
        "tanzt tanzen betrachtet betrachten lächelt isst fliegt fliegen nimmt nehmen schlägt schlagen schwimmt "
        "schwimmen kämpft kämpfen tritt treten hebt heben malt malen hängt hängen kniet knien schneidet schneiden "
        "umgeben genießt genießen beobachtet beobachten telefoniert telefonieren rutscht rutschen benutzt benutzen "
        "hilft helfen fängt fangen überquert überqueren verkauft verkaufen surft surfen streckt strecken kommt kommen "
        "stellt stellen trinkt trinken guckt gucken legt legen gibt geben umarmt umarmen jagt jagen versammelt "
        "balanciert balancieren greift greifen beugt beugen schwingt schwingen setzt setzen scheint scheinen schreibt "
        "schreiben schaukelt dreht drehen starrt starren bedeckt repariert reparieren wandert wandern putzt putzen "
        "holt holen hüpft hüpfen bemalt lacht lachen raucht rauchen redet reden fällt fallen küsst küssen taucht "
        "steigt steigen ruht ruhen hockt hocken schießt schießen bedient schüttelt winkt winken reinigt reinigen "
        "fotografiert fotografieren jongliert verfolgt verfolgen verwendet verwenden bekommt öffnet kauft kaufen kehrt "
        "kocht kochen hört hören wäscht waschen untersucht untersuchen gleitet bringt bringen rasiert gräbt graben "
        "entspannt entspannen paddelt paddeln kickt rudert rudern bewegt bewegen bläst baut bauen joggt joggen "
        "zeichnet übt üben marschiert marschieren entfernt rast steckt fegt gießt berührt rollt folgt folgen kaut "
        "findet finden ringt ringen streichelt angelt angeln füllt füttert feiert feiern amüsieren nähert zuschaut "
        "zuguckt zuschauen getroffen zusieht zusehen aussieht gekleidet bekleidet angezogen verkleidet gehalten geht's "
        "diskutieren treffen aufführen"
    )
    MEASURES = _words(
        "gruppe paar glas tasse reihe menge dutzend stück flasche art schar teller haufen stapel schüssel dose becher "
        "kiste sorte bund eimer packung blatt portion gläser anzahl vielzahl"
    )
    """Nouns that another noun may follow: eine Gruppe Kinder."""
    INTENSIFIERS = _words("sehr ganz etwas leicht teilweise halb frisch bunt hell dunkel relativ ziemlich besonders")
    BEFORE_ADJECTIVES = INTENSIFIERS | NUMBERS
    UNINFLECTED = _words(
        "rosa lila orange beige pink türkis khaki oliv creme blau rot grün gelb schwarz weiß braun grau bunt hell "
        "dunkel"
    )
    ADJECTIVES = _words(
        "klein groß jung ander älter ält alt lang kurz schön dunkl hoh höh leer kühn offen kleiner deutsch verlassen "
        "unbefestigt edl einfach erwachsen best falsch obdachlos neugeboren nass einsam voll kalt weiter steil link "
        "recht dritt zweit erst letzt nächst viert ruhig rund golden nackt hübsch schmal neu eng größer größt gut klar "
        "schwer warm heiß dick dünn trocken gefroren wild ganz kaputt breit schlank hart steinern seicht schick scharf "
        "besser gemeinsam besonder tief frisch dicht karg urban tot erfahren modern attraktiv formell professionell "
        "brünett fremd flach öffentlich einzeln silbern hölzern städtisch weiblich männlich viel mittler hellhäutig "
        "gleich jünger jüngst bloß frei niedrig halb lebhaft locker schnell eigen verschieden weit stark sauber dunkel "
        "hell nah inner äußer vorder hinter ober unter einzig beid mehrer selb fein glatt rau leicht teuer edel kahl "
        "sonstig toll cool still bunt blond schwanger extravagant elegant riesengroß berühmt interessant laut verrückt "
        "dreckig hoch schräg privat zentral international original beig rosan orang lilan violett türkis exotisch trüb "
        "wunderschön"
    )
    """Without their endings."""
    ADJECTIVES_END = (
        *(
            "weiß",
            "rot",
            "blau",
            "schwarz",
            "grün",
            "braun",
            "gelb",
            "grau",
            "rosa",
            "farben",
            "blond",
            "bunt",
            "orange",
        ),
        *(
            "ig",
            "lich",
            "isch",
            "los",
            "bar",
            "sam",
            "haft",
            "end",
            "elnd",
            "ernd",
            "voll",
            "iert",
            "nell",
            "rell",
            "uell",
            "iell",
            "iv",
            "artig",
            "froh",
            "ös",
            "al",
        ),
        *("groß", "alt", "bedeckt", "bewachsen", "lang", "hoch", "ärmelig", "gekleidet", "bekleidet", "reich", "arm"),
    )
    PARTICIPLES = (r"\w*ge\w{3,}(t|en)", r"(be|ver|er|ent|zer|über|um|unter)\w{3,}t", r"(ver|be)\w{3,}(ss|oss|ass|l)en")
    NOUNS = _words(
        "tische tischen fische fischen fischer könige königen gesichter gesichtern gewichte gewichten gerüste geräte "
        "geräten getränke wochenende nachbarn nachbar mannschaften landschaften besitzer begleiter gebiete gäste "
        "gelände ende händler jugend abende gegenden bereiche bereichen arme armen ärmel ringe ringen beine orange "
        "hinterhof männer gruppe leute freunde jacke hose hemd getränken umhänge unterlage gerichte stelle felle ruhe "
        "gesellschaften hälse teiche"
    )
    """That look like adjectives with an ending."""
    CONJUNCTIONS = _words("und oder , bis &amp; &")
