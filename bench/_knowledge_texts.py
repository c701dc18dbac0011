"""Sentences of the documents of bench/knowledge.py and questions about them, in three languages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FactTexts:
    """Ways to state a fact, and ways to ask for it; any of these answers any of those."""

    statements: Sequence[str]
    questions: Sequence[str]


@dataclass(frozen=True, slots=True)
class LanguageTexts:
    """Texts of one language: `{s} {k}` is the name of a subject."""

    language: str
    subjects: Sequence[str]
    kinds: Sequence[str]
    values: Mapping[str, Sequence[str]]
    facts: Sequence[FactTexts]
    distractors: Sequence[str]
    filler: Sequence[str]


SUBJECT_TEXT = """
Alder Amber Aspen Basalt Beacon Birch Cedar Cobalt Comet Copper Coral Crane Delta Ember Falcon Fjord Garnet Glacier
Harbor Hazel Heron Indigo Iris Jasper Juniper Kestrel Lagoon Larch Linden Lotus Lynx Magnet Maple Marlin Meadow Mesa
Nimbus Oak Olive Onyx Opal Orchid Osprey Pebble Pine Quartz Raven Reef Ridge Saffron Sierra Summit Tern Thistle Topaz
Tundra Umber Violet Walnut Willow Zephyr
"""
MONTH_TEXT = "January February March April May June July August September October November December"
ENGLISH_FACTS = (
    FactTexts(
        (
            "The {s} {k} cost {n} euros including delivery.",
            "We paid {n} euros for the {s} {k}.",
            "The invoice for the {s} {k} came to {n} euros.",
        ),
        (
            "How much did the {s} {k} cost?",
            "What did we pay for the {s} {k}?",
            "What was the price of the {s} {k} in euros?",
            "How expensive was the {s} {k}?",
        ),
    ),
    FactTexts(
        (
            "{p} is in charge of the {s} {k}.",
            "{p} leads the group that runs the {s} {k}.",
            "Questions about the {s} {k} go to its manager, {p}.",
        ),
        (
            "Who manages the {s} {k}?",
            "Who is responsible for the {s} {k}?",
            "Which person leads the team of the {s} {k}?",
            "Who is in charge of the {s} {k}?",
        ),
    ),
    FactTexts(
        (
            "Construction of the {s} {k} began in {m} {y}.",
            "Building work on the {s} {k} started in {m} {y}.",
        ),
        (
            "When did construction of the {s} {k} begin?",
            "When was building work on the {s} {k} started?",
            "In which month did they begin to build the {s} {k}?",
        ),
    ),
    FactTexts(
        (
            "The {s} {k} stands on the outskirts of {t}.",
            "The {s} {k} is located in {t}.",
            "The site of the {s} {k} is in {t}, near the station.",
        ),
        (
            "Where is the {s} {k} located?",
            "In which town is the {s} {k}?",
            "In which city does the {s} {k} stand?",
            "What is the location of the {s} {k}?",
        ),
    ),
    FactTexts(
        (
            "The {s} {k} must not get hotter than {d} degrees.",
            "The operating temperature of the {s} {k} is limited to {d} degrees.",
            "Above {d} degrees the {s} {k} has to be switched off.",
        ),
        (
            "What is the maximum temperature of the {s} {k}?",
            "How hot may the {s} {k} get?",
            "Up to how many degrees may the {s} {k} be operated?",
        ),
    ),
    FactTexts(
        (
            "{p} repaired the {s} {k} after the leak.",
            "The broken shaft of the {s} {k} was replaced by {p}.",
            "{p} fixed the damage to the {s} {k}.",
        ),
        (
            "Who repaired the {s} {k}?",
            "Who fixed the {s} {k}?",
            "Which technician did the repair of the {s} {k}?",
        ),
    ),
    FactTexts(
        (
            "The {s} {k} handles up to {n} litres per hour.",
            "The capacity of the {s} {k} is {n} litres per hour.",
        ),
        (
            "What is the capacity of the {s} {k}?",
            "How many litres per hour can the {s} {k} handle?",
            "What is the maximum flow of the {s} {k} per hour?",
        ),
    ),
    FactTexts(
        (
            "The {s} {k} was supplied by {c}.",
            "{c} manufactured the {s} {k}.",
            "The maker of the {s} {k} is {c}.",
        ),
        (
            "Which company supplied the {s} {k}?",
            "Who is the manufacturer of the {s} {k}?",
            "Which firm made the {s} {k}?",
        ),
    ),
    FactTexts(
        (
            "The {s} {k} was painted {o} last summer.",
            "The colour of the {s} {k} is {o}.",
        ),
        (
            "What colour is the {s} {k}?",
            "In which colour was the {s} {k} painted?",
            "What does the paint of the {s} {k} look like?",
        ),
    ),
    FactTexts(
        (
            "The next inspection of the {s} {k} is due on {d} {m}.",
            "The {s} {k} has to be inspected before the end of {m} {y}.",
        ),
        (
            "When is the next inspection of the {s} {k}?",
            "By what date must the {s} {k} be inspected?",
            "When does the {s} {k} have to be examined again?",
        ),
    ),
    FactTexts(
        (
            "The {s} {k} weighs {n} kilograms without its base.",
            "The weight of the {s} {k} is {n} kilograms.",
        ),
        (
            "How heavy is the {s} {k}?",
            "What is the weight of the {s} {k}?",
            "How many kilograms does the {s} {k} weigh?",
        ),
    ),
    FactTexts(
        (
            "The warranty of the {s} {k} ends in {m} {y}.",
            "The guarantee for the {s} {k} expires in {m} {y}.",
        ),
        (
            "How long is the {s} {k} under warranty?",
            "When does the guarantee of the {s} {k} run out?",
            "When does the warranty for the {s} {k} expire?",
        ),
    ),
    FactTexts(
        (
            "The {s} {k} consumes {n} kilowatt hours a month.",
            "The electricity consumption of the {s} {k} is {n} kilowatt hours a month.",
        ),
        (
            "How much electricity does the {s} {k} use?",
            "What is the power consumption of the {s} {k}?",
            "How much energy does the {s} {k} consume per month?",
        ),
    ),
    FactTexts(
        (
            "A {f} caused the failure of the {s} {k}.",
            "The {s} {k} broke down because of a {f}.",
            "The reason for the breakdown of the {s} {k} was a {f}.",
        ),
        (
            "Why did the {s} {k} fail?",
            "What caused the breakdown of the {s} {k}?",
            "What was the reason for the failure of the {s} {k}?",
        ),
    ),
    FactTexts(
        (
            "{d} people work at the {s} {k}.",
            "The {s} {k} has a staff of {d}.",
            "The {s} {k} employs {d} people.",
        ),
        (
            "How many people work at the {s} {k}?",
            "How large is the staff of the {s} {k}?",
            "How many employees does the {s} {k} have?",
        ),
    ),
    FactTexts(
        (
            "The key to the {s} {k} is kept in cabinet {d}.",
            "Keys for the {s} {k} are in cabinet {d}.",
        ),
        (
            "Where is the key to the {s} {k}?",
            "In which cabinet is the key of the {s} {k} kept?",
            "Where do I get keys for the {s} {k}?",
        ),
    ),
    FactTexts(
        (
            "The {s} {k} is insured for {n} thousand euros.",
            "The insurance of the {s} {k} covers {n} thousand euros.",
        ),
        (
            "For what amount is the {s} {k} insured?",
            "What sum does the insurance of the {s} {k} cover?",
            "How high is the insurance cover of the {s} {k}?",
        ),
    ),
    FactTexts(
        (
            "At full load the noise of the {s} {k} reaches {d} decibels.",
            "The {s} {k} has a noise level of {d} decibels.",
        ),
        (
            "How loud is the {s} {k}?",
            "What is the noise level of the {s} {k}?",
            "How many decibels does the {s} {k} reach?",
        ),
    ),
    FactTexts(
        (
            "The {s} {k} was delayed by {d} weeks because of customs.",
            "The {s} {k} was finished {d} weeks late.",
        ),
        (
            "How long was the delay of the {s} {k}?",
            "By how many weeks was the {s} {k} delayed?",
            "How many weeks late was the {s} {k}?",
        ),
    ),
    FactTexts(
        (
            "{p} approved the budget of the {s} {k}.",
            "The funds for the {s} {k} were approved by {p}.",
        ),
        (
            "Who approved the budget of the {s} {k}?",
            "Who signed off the funds for the {s} {k}?",
            "Who authorised the spending on the {s} {k}?",
        ),
    ),
)
ENGLISH = LanguageTexts(
    "English",
    SUBJECT_TEXT.split(),
    ("pump", "turbine", "tunnel", "archive", "reactor", "harvester", "pipeline", "antenna", "ferry", "furnace"),
    {
        "p": ("Ines Moreau", "Tomas Weber", "Yuki Tanaka", "Amara Okafor", "Lena Novak", "Omar Haddad", "Priya Nair"),
        "t": ("Bergen", "Cadiz", "Gdansk", "Izmir", "Oulu", "Porto", "Split", "Turku", "Varna", "Zadar"),
        "c": ("Nordwerk", "Halden Systems", "Brightwater", "Castell and Sons", "Ostrava Steel", "Vireo Industries"),
        "o": ("dark green", "light grey", "orange", "white", "navy blue", "yellow"),
        "f": ("cracked valve", "short circuit", "blocked filter", "software error", "worn bearing", "loose cable"),
        "m": MONTH_TEXT.split(),
        "y": ("2021", "2022", "2023", "2024", "2025"),
    },
    ENGLISH_FACTS,
    (
        "The committee reviewed the {s} {k} and asked for another report.",
        "The contract of the {s} {k} has four annexes and was translated twice.",
        "Photographs of the {s} {k} were published in the newsletter.",
        "A delegation toured the {s} {k} and thanked its hosts.",
        "The {s} {k} was mentioned in the minutes of the annual meeting.",
        "Students wrote their theses about the {s} {k}.",
        "The drawings of the {s} {k} were scanned and archived.",
        "Several readers sent letters about the {s} {k}.",
        "The {s} {k} is described in chapter {d} of the manual.",
        "A model of the {s} {k} is shown in the entrance hall.",
        "The {s} {k} appears on the cover of the brochure.",
        "The neighbours have been informed about the {s} {k}.",
        "{p} gave a talk about the {s} {k} at the conference in {t}.",
        "The working group of the {s} {k} met {d} times.",
        "Data of the {s} {k} are sent to the control room every minute.",
        "The {s} {k} was compared with {d} others in a study.",
        "The software of the {s} {k} was updated in {m}.",
        "A film about the {s} {k} was shown in {t}.",
        "{c} asked for permission to copy the plans of the {s} {k}.",
        "The mayor of {t} visited the {s} {k} in {m} {y}.",
        "The glossary explains the abbreviations of the {s} {k}.",
        "Spare parts of the {s} {k} are listed in appendix {d}.",
        "The {s} {k} was not affected by the storm in {m}.",
        "Comments on the {s} {k} can be sent until {m}.",
    ),
    (
        "The {k} committee of the region meets every quarter.",
        "Weather data were collected at all stations during the spring.",
        "The {s} newsletter has a new editor and a new layout.",
        "Samples are labelled, sealed and sent to the laboratory on Mondays.",
        "Training for new colleagues takes place in the afternoon.",
        "Group {s} presented its findings, and the audience applauded.",
        "Minutes of the meeting are distributed within a fortnight.",
        "A survey of suppliers showed no change since the previous year.",
        "The inventory lists cables, valves, gaskets and spare bearings.",
        "Visitors register at the gate and wear a badge at all times.",
        "The canteen costs of the {s} office rose by {d} percent.",
        "{p} manages the library and answers questions by telephone.",
        "Construction of the new parking garage began in {m} {y}.",
        "The branch office in {t} is located next to the post office.",
        "The maximum temperature in the server room is {d} degrees.",
        "{p} repaired the coffee machine of the second floor.",
        "The meeting room has a capacity of {d} people.",
        "{c} supplied the chairs and tables of the reception.",
        "The corridor was painted {o} over the weekend.",
        "The next inspection of the fire extinguishers is in {m}.",
        "Parcels that weigh more than {d} kilograms are collected at the ramp.",
        "The warranty for the printers ends in {m} {y}.",
        "The electricity consumption of the offices fell by {d} percent.",
        "A {f} was the reason for the failure of the lift.",
        "The department has a staff of {d}, of whom two work from {t}.",
        "The key to the archive of the {s} office is at the reception.",
        "The insurance of the vehicles covers damage by hail.",
        "The noise level in the workshop is below {d} decibels.",
        "Deliveries of {c} were delayed by {d} days in {m}.",
        "{p} approved the budget for travel in {y}.",
        "Every {k} has a plate with its number and the year.",
        "The report compares the {k} types that are on the market.",
    ),
)
GERMAN_SUBJECT_TEXT = """
Adler Ahorn Amsel Birke Dachs Eiche Falke Fichte Hafen Hirsch Kiefer Komet Kranich Linde Nebel Otter Rabe
"""
GERMAN = LanguageTexts(
    "German",
    GERMAN_SUBJECT_TEXT.split(),
    ("Pumpe", "Turbine", "Anlage", "Fähre", "Antenne", "Brücke"),
    {
        "p": ("Ines Moreau", "Thomas Weber", "Lena Nowak", "Omar Haddad", "Jutta Brandt"),
        "t": ("Bremen", "Kassel", "Lübeck", "Passau", "Ulm"),
        "m": ("Januar", "März", "Mai", "Juli", "September", "November"),
        "y": ("2021", "2022", "2023", "2024"),
    },
    (
        FactTexts(
            ("Die {s}-{k} hat {n} Euro gekostet.", "Für die {s}-{k} wurden {n} Euro bezahlt."),
            ("Wie viel hat die {s}-{k} gekostet?", "Was war der Preis der {s}-{k}?"),
        ),
        FactTexts(
            ("{p} leitet die {s}-{k}.", "Verantwortlich für die {s}-{k} ist {p}."),
            ("Wer leitet die {s}-{k}?", "Wer ist für die {s}-{k} verantwortlich?"),
        ),
        FactTexts(
            ("Die {s}-{k} steht am Rand von {t}.", "Der Standort der {s}-{k} ist {t}."),
            ("In welcher Stadt steht die {s}-{k}?", "Wo ist der Standort der {s}-{k}?"),
        ),
        FactTexts(
            ("{p} hat die {s}-{k} repariert.", "Der Schaden an der {s}-{k} wurde von {p} behoben."),
            ("Wer hat die {s}-{k} repariert?", "Von wem wurde der Schaden an der {s}-{k} behoben?"),
        ),
        FactTexts(
            ("Die {s}-{k} wiegt {n} Kilogramm.", "Das Gewicht der {s}-{k} beträgt {n} Kilogramm."),
            ("Wie schwer ist die {s}-{k}?", "Welches Gewicht hat die {s}-{k}?"),
        ),
        FactTexts(
            ("Die nächste Prüfung der {s}-{k} ist im {m}.", "Im {m} {y} muss die {s}-{k} geprüft werden."),
            ("Wann ist die nächste Prüfung der {s}-{k}?", "Wann muss die {s}-{k} geprüft werden?"),
        ),
    ),
    (
        "Der Ausschuss hat über die {s}-{k} beraten.",
        "Fotos der {s}-{k} erschienen in der Zeitung.",
        "Eine Gruppe aus {t} hat die {s}-{k} besichtigt.",
        "Die {s}-{k} wird in Kapitel {d} beschrieben.",
        "Über die {s}-{k} wurde ein Vortrag gehalten.",
        "Die Pläne der {s}-{k} liegen im Archiv.",
        "Die Software der {s}-{k} wurde im {m} erneuert.",
        "Die Nachbarn wurden über die {s}-{k} informiert.",
    ),
    (
        "Die Kantine öffnet um elf Uhr.",
        "Proben werden montags an das Labor geschickt.",
        "{p} hat den Drucker im zweiten Stock repariert.",
        "Das Büro in {t} liegt neben der Post.",
        "Die Kosten der Reinigung stiegen um {d} Prozent.",
        "Die Prüfung der Feuerlöscher ist im {m}.",
        "Pakete mit mehr als {d} Kilogramm werden an der Rampe abgeholt.",
        "Besucher melden sich am Eingang an.",
        "Jede {k} hat ein Schild mit ihrer Nummer.",
        "Das Protokoll wird innerhalb von zwei Wochen verteilt.",
    ),
)
CHINESE = LanguageTexts(
    "Chinese",
    ("红松", "白桦", "青竹", "银杏", "海棠", "琥珀", "北辰", "长河", "天鹅", "雪山", "金星", "蓝湖"),
    ("水泵", "汽轮机", "隧道", "天线", "渡轮", "锅炉"),
    {
        "p": ("王丽", "张伟", "陈晨", "刘洋", "赵敏"),
        "t": ("青岛", "成都", "厦门", "大连", "昆明"),
        "y": ("2021", "2022", "2023", "2024"),
    },
    (
        FactTexts(
            ("{s}{k}的价格是{n}元。", "购买{s}{k}花了{n}元。"),
            ("{s}{k}的价格是多少？", "{s}{k}花了多少钱？"),
        ),
        FactTexts(
            ("{p}负责{s}{k}。", "{s}{k}的负责人是{p}。"),
            ("谁负责{s}{k}？", "{s}{k}的负责人是谁？"),
        ),
        FactTexts(
            ("{s}{k}位于{t}。", "{s}{k}建在{t}的郊区。"),
            ("{s}{k}位于哪个城市？", "{s}{k}建在哪里？"),
        ),
        FactTexts(
            ("{p}修好了{s}{k}。", "{s}{k}的故障由{p}修理。"),
            ("谁修好了{s}{k}？", "{s}{k}的故障是谁修理的？"),
        ),
        FactTexts(
            ("{s}{k}的重量是{n}公斤。", "{s}{k}重{n}公斤。"),
            ("{s}{k}的重量是多少？", "{s}{k}有多少公斤？"),
        ),
        FactTexts(
            ("{s}{k}于{y}年开工。", "{s}{k}的施工从{y}年开始。"),
            ("{s}{k}是哪一年开工的？", "{s}{k}的施工什么时候开始？"),
        ),
    ),
    (
        "委员会讨论了{s}{k}的报告。",
        "{s}{k}的照片登在报纸上。",
        "来自{t}的代表团参观了{s}{k}。",
        "第{d}章介绍了{s}{k}。",
        "{s}{k}的图纸保存在档案室。",
        "学生写了关于{s}{k}的论文。",
        "{s}{k}的软件已经更新。",
    ),
    (
        "食堂中午十一点开门。",
        "样品每周一送到实验室。",
        "{p}修好了二楼的打印机。",
        "{t}的办公室在邮局旁边。",
        "办公费用上涨了百分之{d}。",
        "超过{d}公斤的包裹在门口领取。",
        "访客在门口登记。",
        "会议记录两周内发出。",
        "每台{k}都有编号。",
        "停车场于{y}年开工。",
    ),
)
