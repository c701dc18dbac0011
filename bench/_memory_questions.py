"""Facts as a model writes them down, and how people ask for them later: in other words, forms and orders.

Each line is a fact, then a question. Half of them come from the table of topics below, with what is asked about another
thing of the same kind beside it, so that the words that tell one from the other have to count.
"""

from collections.abc import Iterator

SINGLE = """
The user prefers tabs over spaces when indenting Python code | Which indentation style for code, tabs or spaces?
The user is allergic to peanuts and shellfish | What allergies should I know before cooking, like peanut?
The user's daughter Mila starts school in August | When does Mila begin with schooling?
The user drives a 2011 Volvo estate car | Which car does the user drive, a Volvo?
The user studied marine biology in Lisbon | Where were the marine biology studies done?
The user runs a bakery called Crumb & Co in Leeds | What is the name of the bakery in Leeds?
The user speaks Dutch at home with their grandparents | Which language is spoken with the grandparents?
The user wants reports as bullet points, never as long paragraphs | How should reports look, bullets or paragraphs?
The user's favourite editor is Neovim with the gruvbox theme | Which editor theme do I like, gruvbox?
The user deploys services to Kubernetes with Helm charts | How are my services deployed, with Helm?
The user has a meeting with the investors every second Thursday | Which day do investor meetings happen?
The user is training for the Hamburg marathon in April | What marathon am I training for?
The user's mother was born in Valparaíso | Where was my mother born?
The user dislikes being called by their full name Alexander | May I use the full name Alexander?
The user keeps bees and sells honey at the Saturday market | Where is the honey from my bees sold?
The user's laptop has only 8 GB of memory | How much memory does my laptop have in GB?
The user takes the night train to Vienna twice a year | How often do I take night trains to Vienna?
The user plays the cello in an amateur orchestra | Which instrument do I play in the orchestra?
The user is writing a novel about lighthouse keepers | What is my novel about, lighthouses?
The user cannot work on Friday afternoons | Am I free to work Friday afternoon?
The user uses PostgreSQL 16 with logical replication | Which PostgreSQL version, and is replication used?
The user's budget for the kitchen renovation is 14,000 euros | What budget is there for renovating the kitchen?
The user prefers metric units in every calculation | Metric or imperial units for calculations?
The user reads papers on protein folding every week | What papers about proteins do I read weekly?
The user's cat is called Biscuit and is diabetic | Is my cat Biscuit ill, diabetes?
The user wants commit messages in the imperative mood | Which mood for commit messages?
The user moved from Toronto to Utrecht in 2023 | When did I move to Utrecht?
The user's company builds sensors for greenhouses | What does my company build for greenhouses?
The user has a red-green colour blindness | Which colours are a problem, red and green blindness?
The user learns Japanese with a tutor called Haruko | Who is the tutor for learning Japanese?
The user's thesis is about erosion on alpine pastures | What is the topic of my thesis, alpine erosion?
The user pays invoices on the first Monday of a month | On which day are invoices paid?
The user owns a sailing boat named Petrel | What is the sailing boat called?
The user is vegetarian since 2015 but eats eggs | Do I eat eggs as a vegetarian?
The user prefers short answers without introductions | Short or long answers, with an introduction?
The user teaches chemistry at a secondary school in Graz | Which subject do I teach at school in Graz?
The user's Wi-Fi router is a Fritzbox 7590 | Which router model do I have for Wi-Fi?
The user wants error messages logged as JSON lines | In what format are errors logged, JSON?
The user celebrates Diwali with the neighbours | With whom is Diwali celebrated?
The user broke the left wrist while skiing in 2020 | Which wrist was broken skiing?
The user writes Rust at work and Haskell for fun | Which languages at work, Rust or Haskell?
The user's sister Ines works as a notary | What is the profession of my sister Ines?
The user collects maps of the Baltic coast from before 1900 | Which old maps do I collect, Baltic?
The user hates coriander and never wants it in recipes | Should recipes contain coriander?
The user's insurance covers dental work up to 900 francs | How much dental work is covered by insurance?
The user tests with pytest and never with unittest | Which framework for tests, pytest or unittest?
The user's office plants are watered by the caretaker on Tuesdays | Who waters the plants in my office?
The user has to take blood pressure medicine at eight | At what time is the medicine for blood pressure?
The user plans to open a second shop in Ghent next spring | Where will the second shop be opened?
The user's preferred airline is Finnair because of the legroom | Which airline do I prefer to fly?
用户更喜欢用空格而不是制表符缩进 | 缩进用空格还是制表符？
用户住在成都，在一家医院工作 | 用户在成都哪里工作？医院吗？
用户对花生过敏 | 花生可以吃吗，过敏不过敏？
用户的女儿今年上小学 | 女儿上几年级，小学？
用户喜欢喝龙井茶，不喝咖啡 | 喝茶还是咖啡？龙井？
用户正在写关于丝绸之路的论文 | 论文写什么，丝绸之路？
用户希望回答简短，不要客套话 | 回答要简短吗？
用户每周三晚上打羽毛球 | 什么时候打羽毛球？
用户的服务器部署在阿里云上海机房 | 服务器部署在哪个机房？
用户计划明年春天去冰岛旅行 | 明年去哪里旅行，冰岛？
"""

TOPICS = """
The user's project {thing} is written in {other} and released monthly | In which language is project {thing} written?
The user met {thing} at a conference in {other} and wants to stay in touch | At which conference did I meet {thing}?
The password manager of the team {thing} is run by the {other} department | Who runs password management for {thing}?
The user's recipe for {thing} needs {other} instead of butter | What replaces butter in the {thing} recipes?
The user visited {thing} with {other} and would go there again | With whom did I visit {thing}?
The customer {thing} must always be invoiced through {other} | Through whom is {thing} invoiced?
The printer {thing} in the {other} jams when it is used for labels | Which printer jams with labels, {thing}?
"""
THINGS = """
Aurora Basalt Cobalt Dahlia Ember Falcon Glacier Harbor Indigo Juniper
Kestrel Lagoon Marble Nimbus Obsidian Pelican Quartz Raven Saffron Tundra
"""
OTHERS = """
Elixir Bergen Finance oatmeal Jonas Datev basement Kotlin Porto Legal yoghurt Amira Stripe attic
Fortran Tallinn Research margarine Pavel Klarna hallway
"""


def questions() -> list[tuple[str, str]]:
    """200 facts, each with a question for it."""
    return [*read(SINGLE), *from_topics()]


def read(lines: str) -> list[tuple[str, str]]:
    """Pairs from their lines."""
    pairs = (line.partition("|") for line in lines.strip().splitlines())
    return [(fact.strip(), question.strip()) for fact, _, question in pairs]


def from_topics() -> Iterator[tuple[str, str]]:
    """Every topic with every thing."""
    others = OTHERS.split()
    for number, thing in enumerate(THINGS.split()):
        for offset, (fact, question) in enumerate(read(TOPICS)):
            other = others[(number * 3 + offset) % len(others)]
            yield fact.format(thing=thing, other=other), question.format(thing=thing)
