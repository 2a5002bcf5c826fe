# SPDX-License-Identifier: MIT
"""The plots: each is a list of steps, each step a list of variants, each variant a template of one or more sentences.

An empty variant makes a step optional. The steps are written so that every pronoun has its noun in reach: a hero's
pronoun comes after the hero was named, a friend's only in a sentence that names the friend or follows one that does. Where
the variants of a step begin with different characters, they begin with different words: whoever tells the story one word
at a time has then chosen the sentence before the name.
"""

TRAITS = "[little|kind|brave|clever|quiet|cheerful|curious|gentle|young|friendly]"

INTRO = [
    "[Once upon a time|Long ago|One spring], there was a " + TRAITS + " {K} named {H}. {H.He} lived {L}"
    "[| with {H.his} {M}].",
    "Once upon a time, there was a " + TRAITS + " {K} named {H}. {H} lived {L}.",
    "[Once upon a time|Long ago], a " + TRAITS + " {K} named {H} lived {L}[| with {H.his} {M}].",
    "{H} was a " + TRAITS + " {K} who lived {L}[| with {H.his} {M}].",
]
THING = [
    "{H} had a {C} {O}[| from {H.his} {M}]. {H.He} [took it everywhere|loved it very much|was very proud of it].",
    "{H} loved {H.his} {C} {O}[| more than anything]. It was a gift from {H.his} {M}.",
]
MEET = [
    "Then {H} met {F}, a " + TRAITS + " {G}.",
    "[Just then|Soon], a " + TRAITS + " {G} named {F} came by.",
    "On the way, {H} [met|saw] a " + TRAITS + " {G}. {F.His} name was {F}.",
]
DAY = "[One day|One morning|One evening|One afternoon|One sunny day]"
ADVERBS = "[| happily| with a smile| softly| kindly]"
THANKS = [
    "\"Thank you, {F}!\" [said|cried|called] {H}.",
    "{H} thanked {F}[| with a big smile| and gave {F.him} a hug].",
    "\"You are a [good|true|great] friend,\" {H} [said|told {F}]" + ADVERBS + ".",
]
PRAISE = ["\"You are welcome,\" said {F}.", "\"You are welcome,\" said {F} and [smiled|laughed|nodded].", ""]
FRIENDS = [
    "From that day on, {H} and {F} were [good friends|best friends].",
    "After that, {H} and {F} [played together every day|were the best of friends].",
    "And so {H} and {F} became [good|best] friends.",
]

LOST = [
    INTRO, THING,
    [DAY + ", the {O} was gone.", "But " + "[one day|one morning|one evening]" + ", {H} could not find the {O}.",
     DAY + ", {H} lost the {O}."],
    ["\"[Where is my {O}?|Oh no! My {O} is gone!|I have lost my {O}!]\" [said|cried] {H}.", "{H} was very sad.", ""],
    ["{H} looked {P.at}, but the {O} was not there.", "{H.He} looked {P.at}. The {O} was not there.",
     "First, {H.he} looked {P.at}, but {H.he} did not find it."],
    ["{H} looked {Q.at} too, but it was not there.", "Then {H.he} looked {Q.at}. It was not there.", ""],
    MEET,
    ["\"Have you seen my {C} {O}?\" asked {H}.", "{H} asked {F} about the {C} {O}.",
     "\"Please help me find my {O},\" said {H}."],
    ["\"Yes,\" said {F}. \"I saw it {R.at}.\"", "\"I think it is {R.at},\" said {F}.",
     "\"I saw [a {C} {O}|it] {R.at},\" {F} [said|answered]."],
    ["{H} and {F} [went|ran|walked] to {R} together.", "So they [went|ran|walked] to {R}."],
    ["There was the {O}, {U}!", "The {O} was [there|lying there], {U}.", "{H} found the {C} {O} {U}."],
    THANKS, PRAISE,
    ["{H} [took|carried] the {O} home and [never lost it again|was very happy].",
     "{H} was happy to have the {O} back.", "That night, {H} slept with the {O} next to {H.him}."],
    FRIENDS + [""],
]

STUCK = [
    INTRO, THING,
    [DAY + ", {H} played with the {O} {P.at}.", DAY + ", {H} took the {O} to {P}."],
    ["[Suddenly, the wind took the {O}|The wind blew hard and carried the {O} away|But a strong wind came and took "
     "the {O}].", "Then the wind blew the {O} away."],
    ["The {O} got stuck {S}.", "Now the {O} was stuck {S}.", "It got stuck {S}."],
    ["{H} [tried|tried and tried] to get it, but {H.he} could not reach it.", "{H} could not reach the {O}.",
     "{H.He} could not reach it and began to cry."],
    MEET,
    ["\"[What is wrong?|Why are you sad?]\" asked {F}."],
    ["\"My {O} is stuck {S},\" said {H}.", "\"I cannot reach my {C} {O},\" said {H}."],
    ["\"I have {S.tool},\" said {F}.", "\"Wait here,\" said {F}. \"I will get {S.tool}.\"",
     "\"We need {S.tool},\" said {F}. \"I have one at home.\""],
    ["{F} came back with {S.tool}. With it, they got the {O} [back|free|out].",
     "{F} brought {S.tool}, and [soon|together] they got the {O} back."],
    THANKS, PRAISE,
    ["{H} held the {O} tight all the way home.", "Then they played with the {C} {O} until [dark|the evening].",
     "{H} let {F} play with the {O} too."],
    FRIENDS,
]

BROKEN = [
    INTRO, THING,
    [DAY + ", the {O} fell down, and the {O.part} broke.", DAY + ", {H} dropped the {O}, and its {O.part} broke.",
     "But one day, the {O.part} of the {O} broke."],
    ["{H} was very sad.", "\"Oh no! My {O} is broken!\" cried {H}.", "{H.He} sat down and began to cry."],
    ["{H} carried the {O} to {P}.", "{H} took the {O} and went to {P}.", "{H} sat {P.at} with the broken {O}."],
    MEET,
    ["\"[What is wrong?|Why are you sad?]\" asked {F}."],
    ["\"The {O.part} of my {O} is broken,\" said {H}.", "\"My {C} {O} is broken,\" said {H}."],
    ["\"Do not worry,\" said {F}. \"We can mend it with {O.fix}.\"", "\"I can mend it with {O.fix},\" said {F}.",
     "\"We only need {O.fix},\" said {F}."],
    ["{F} went to get {O.fix}.", "{F} had {O.fix} at home.", ""],
    ["[Together, they|They worked together and] mended the {O.part}.", "Carefully, {F} mended the {O.part}, and {H} "
     "helped {F.him}.", "While {H} held the {O}, {F} mended the {O.part}."],
    ["[Soon|At last], the {C} {O} was as good as new.", "Now the {O} was as good as new.", "The {O} was whole again."],
    THANKS, PRAISE,
    FRIENDS,
]

SHARE = [
    INTRO,
    [DAY + ", {H.his} {M} gave {H} two {E.s}.", DAY + ", {H} [bought|found] two {E.s} {P.at}.",
     DAY + ", {H} had two {E.s} for lunch."],
    ["{H} walked to {Q} to eat them.", "{H} sat down {Q.at} to eat."],
    ["There {H.he} met {F}, a " + TRAITS + " {G}.", "A " + TRAITS + " {G} named {F} was there too."],
    ["\"I am so hungry,\" said {F}.", "{F} looked at the {E.s}. {F.He} was very hungry.",
     "{F} was hungry and had nothing to eat."],
    ["{H} thought about it. Then {H.he} gave {F} {E.a}.", "\"You can have {E.a},\" said {H}.",
     "\"I have two {E.s},\" said {H}. \"One is for you.\""],
    ["\"Thank you, {H}!\" said {F}.", "{F} was very [happy|glad]. {F.He} thanked {H}.",
     "\"You are so kind,\" said {F}."],
    ["They ate the {E.s} together.", "They ate and talked[| and laughed].", ""],
    ["Later that day, {X}.", "Then {X}.", "On the way home, {X}."],
    ["{H} {X.state}."],
    ["\"{X.offer},\" said {F}.", "But {F} came to help. \"{X.offer},\" {F.he} said."],
    ["Together, they {X.deed}.", "So {H} and {F} {X.deed}."],
    ["\"You helped me, and I helped you,\" said {F}.", "{H} was glad that {H.he} had shared the {E.s}.",
     "{H} learned that it is good to share."],
    FRIENDS,
]

LEARN = [
    INTRO,
    ["{H} wanted to learn to {A}.", "More than anything, {H} wanted to {A}.", "All {H.his} friends could {A}, but "
     "{H} could not."],
    [DAY + ", {H.he} tried to {A} {A.at}, but {H.he} {A.fail}.", DAY + ", {H} went out to try. But {H.he} {A.fail}."],
    ["{H} tried again and {A.fail} again.", "{H.He} tried again, but it was no better.", "{H} was sad.", ""],
    ["\"I will never learn it,\" said {H}.", "\"[It is too hard|I cannot do it],\" said {H}."],
    ["Then {F}, a " + TRAITS + " {G}, came by.", "A " + TRAITS + " {G} named {F} [saw this|heard this]."],
    ["\"Do not give up,\" said {F}. \"{A.tip}.\"", "\"I can help you,\" said {F}. \"{A.tip}.\"",
     "\"{A.tip},\" said {F}."],
    ["{H} [listened|nodded] and tried [again|once more].", "{H} did what {F} said."],
    ["[Day after day|Every day], they [practised|worked] together.", "It was hard work, but {H} did not stop.", ""],
    ["[At last|And then|In the end], {H} {A.past}!", "[At last|In the end], {H} could {A}."],
    ["\"I did it!\" cried {H}.", "\"Look at me!\" cried {H}.", "\"You did it!\" cried {F}."],
    THANKS,
    ["{H.His} {M} was very proud of {H.him}.", "{H} was very proud.", ""],
    ["After that, {H} and {F} went out to {A} every [day|week].", "Now {H} could {A} as well as {F}."],
]

FEAR = [
    INTRO,
    ["{H} was afraid of {B}.", "There was one thing: {H} was afraid of {B}.", "{H} was brave, but {H.he} was afraid "
     "of {B}."],
    ["{H} had a friend, {G.a} named {F}.", "{H.His} best friend was {F}, a " + TRAITS + " {G}."],
    [DAY + ", {H} and {F} were on the way to {P}.", DAY + ", {H} and {F} were {P.at}.",
     DAY + ", {F} went to {P} with {H}."],
    ["[Suddenly|Then], {B.when}."],
    ["{H} began to shake.", "{H} closed {H.his} eyes.", "{H} did not dare to move."],
    ["\"I am afraid,\" said {H}.", "\"Help me, {F}!\" cried {H}."],
    ["\"You do not need to be afraid,\" said {F}.", "\"I am here,\" said {F}.", "\"Do not be afraid of {B},\" said {F}."],
    ["{F} {B.deed}.", "Then {F} {B.deed}."],
    ["{H} felt [better|calm again].", "Soon, {H} was not so afraid.", "[Slowly|Little by little], {H} felt better."],
    ["\"It is not so bad,\" said {H}.", "\"With you, I am brave,\" said {H}.", "\"Thank you, {F},\" said {H}."],
    ["They [laughed|smiled] and went on together.", "Then they went home, side by side.", ""],
    ["After that, {H} was not afraid of {B} any more.", "From that day on, {H} was no longer afraid of {B}."],
]

GIFT = [
    INTRO,
    ["{H} had a good friend, {G.a} named {F}.", "{H.His} best friend was {F}, a " + TRAITS + " {G}."],
    ["Soon it was the birthday of {F}.", "The birthday of {F} was near."],
    ["So {H} wanted to give {F} a {C} {O}.", "More than anything, {F} wished for a {C} {O}.",
     "At the market, {H} saw a {C} {O}. {H.He} wanted to give it to {F}."],
    ["But {H} had no money.", "But {H} had only one coin.", "But the {O} cost five coins."],
    ["So {H} went to {J}. \"Can I work for you?\" {H.he} asked.", "So {H} went to work for {J}.",
     "\"I can work for you,\" {H} told {J}."],
    ["All day, {H} {J.task}.", "{H} {J.task} from morning to evening.", "For two days, {H} {J.task}."],
    ["Then {J} gave {H.him} [five|six|ten] coins.", "{H.He} got [five|six|ten] coins from {J}."],
    ["{H} bought the {C} {O}.", "{H} ran to the market and bought the {O}."],
    ["On the birthday, {H} gave {F} the {O}.", "\"Happy birthday, {F}!\" said {H} and gave {F.him} the {O}."],
    ["{F} opened {F.his} eyes wide. \"A {C} {O}!\" {F.he} cried.", "\"[It is so beautiful|I love it]!\" cried {F}.",
     "{F} was so happy that {F.he} danced."],
    ["\"You worked hard for me,\" said {F}.", "\"Thank you, {H}!\" said {F}.", ""],
    ["{H} was tired, but very happy.", "{H} had never been so happy.", "It was the best birthday of all."],
    FRIENDS + [""],
]

BABY = [
    INTRO,
    [DAY + ", {H} was {P.at} and heard a small voice.", DAY + ", {H} walked to {P}. There {H.he} heard a sound."],
    ["\"{Y.sound}! {Y.sound}!\" it said.", "\"{Y.sound}!\" it went.", "It went, \"{Y.sound}! {Y.sound}!\""],
    ["It was a little {Y}, all alone.", "A little {Y} sat {U}.", "{H} looked around and found a little {Y} {U}."],
    ["\"Where is your mother?\" asked {H}.", "\"Have you lost your mother?\" asked {H}.",
     "\"You are lost,\" said {H}. \"I will help you.\""],
    ["{H} picked up the {Y}.", "{H} took the {Y} in {H.his} arms.", "{H} gave the {Y} some water."],
    MEET,
    ["\"Do you know the mother of this {Y}?\" asked {H}.", "\"Have you seen the mother of the {Y}?\" "
     "asked {H}.", "{H} showed {F} the little {Y}."],
    ["\"There is {Y.amother} at {Y.home},\" said {F}.", "\"Yes, its mother lives at {Y.home},\" said {F}.",
     "\"I know {Y.amother} at {Y.home},\" said {F}."],
    ["{H} and {F} took the {Y} to {Y.home}.", "Together, they carried the {Y} to {Y.home}."],
    ["There was the {Y.mother}. She was looking for her {Y}.", "The {Y.mother} was there and ran to the {Y}.",
     "There the {Y.mother} was waiting."],
    ["\"{Y.sound}!\" said the {Y} and ran to its mother.", "The {Y} was so happy to see its mother.",
     "The {Y} ran to its mother."],
    ["\"We did it!\" said {H}.", "\"Goodbye, little {Y}!\" [said|called] {F}.", ""],
    ["{H} and {F} went home happy.", "{H} and {F} often came back to see the little {Y}."] + FRIENDS,
]

TRIP = [
    INTRO,
    [DAY + ", {H} and {H.his} friend {F} packed a basket of {E.s}.",
     DAY + ", {H} asked {H.his} friend {F} to come on a picnic. They packed some {E.s}."],
    ["{F} was a " + TRAITS + " {G}.", "{F}, a " + TRAITS + " {G}, loved {E.s}."],
    ["They [walked|went] to {P}.", "They sang a song and walked to {P}."],
    ["But when they got there, {W}.", "They sat down {P.at}, but then {W}.", "Suddenly, {W}."],
    ["\"Oh no! Our picnic!\" [said|cried] {H}.", "\"What shall we do?\" asked {H}.", "\"We must go home,\" said {H}."],
    ["\"Look! We can wait {T},\" said {F}.", "\"Come with me,\" said {F}. \"We can sit {T}.\"",
     "{F} had an idea. \"Let us wait {T},\" {F.he} said."],
    ["They ran fast and sat down {T}.", "Soon they sat {T}, warm and dry.", "So they sat {T} and waited."],
    ["There {F} told a [funny|long] story, and {H} laughed.",
     "To pass the time, {H} sang a song, and {F} clapped {F.his} hands.",
     "They told each other stories.", ""],
    ["At last, {W.over}.", "After an hour, {W.over}.", "Then {W.over}, and the sun came out."],
    ["{H} and {F} ate all the {E.s}.", "They opened the basket and ate the {E.s}.",
     "Now they ate their {E.s} in the sun."],
    ["\"This was the best picnic,\" said {H}.", "\"That was fun,\" said {F}.", "\"We had a great day,\" said {F}."],
    ["{H} and {F} walked home, tired and happy.", "In the evening, {H} told {H.his} {M} about it.",
     "In the evening, they walked home together."],
]

BUILD = [
    INTRO,
    ["{H} wanted to build {D.a}.", DAY + ", {H} had an idea. \"I will build {D.a},\" {H.he} said."],
    ["{H.He} had {D.have}, but {H.he} did not have {D.lack}.", "{H} had {D.have}. But {H.he} needed {D.lack} too.",
     "For this, {H.he} needed {D.have} and {D.lack}. {H.He} had only {D.have}."],
    ["{H} looked for {D.lack} {P.at}, but {H.he} found nothing.", "{H} went to {P}, but there was nothing.", ""],
    MEET,
    ["\"What are you doing?\" asked {F}.", "\"Can I help you?\" asked {F}."],
    ["\"I want to build {D.a},\" said {H}. \"But I need {D.lack}.\"", "\"I need {D.lack},\" said {H}.",
     "\"Do you have {D.lack}?\" asked {H}."],
    ["\"I have {D.lack} at home,\" said {F}.", "\"You can have {D.lack} from me,\" said {F}.",
     "\"I will bring you {D.lack},\" said {F}."],
    ["{F} [ran|went] home and came back with {D.lack}.", "Soon {F} brought {D.lack}."],
    ["They worked [all day|all afternoon|until the evening].", "{H} and {F} worked side by side.",
     "Together, they worked [all day|until the evening]."],
    ["At last, they had {D.a}.", "In the evening, they were done.", "[Then|At last] it was finished."],
    ["\"It is wonderful!\" said {F}.", "\"We did it!\" cried {H}.", "\"We are good builders,\" said {H}."],
    ["Together, they {D.use}.", "{H} and {F} {D.use}."],
    FRIENDS + [""],
]

GARDEN = [
    INTRO,
    [DAY + ", {H.his} {M} gave {H} {N.a}.", DAY + ", {H} found {N.a} {P.at}."],
    ["{H} planted it behind the house.", "{H} put it into the ground.", "{H.He} planted it in the garden."],
    ["Every morning, {H} gave it some water.", "{H.He} watered it every day."],
    ["But it did not rain, and the well was dry.", "But the summer was hot, and there was no water.",
     "Then the well ran dry."],
    ["\"My plant will die,\" said {H}.", "{H} was very sad.", "\"What shall I do?\" asked {H}."],
    MEET,
    ["\"I know where there is water,\" said {F}. \"There is some {V.at}.\"", "\"There is water {V.at},\" said {F}."],
    ["Every day, they carried water from {V}.", "{H} and {F} carried water from {V}[| every morning]."],
    ["[Slowly|Day by day], the plant began to grow.", "After a week, there was a green leaf.",
     "The little plant grew and grew."],
    ["At last, there was {N.grown}.", "In the autumn, there was {N.grown}.", "And then there was {N.grown}!"],
    ["\"Look how it grew!\" said {H}.", "\"We did it!\" said {F}.", "\"It is beautiful,\" said {F}."],
    ["They made {N.made} for everyone.", "{H} made {N.made} and gave half of it to {F}.",
     "{H.His} {M} made {N.made} for {H} and {F}."],
    FRIENDS + ["It was the best {N.made} of all."],
]

TREASURE = [
    INTRO,
    [DAY + ", {H} found an old map {P.at}.", DAY + ", {H.his} {M} gave {H} an old map."],
    ["\"It shows the way to a treasure!\" [said|cried] {H}.", "It showed the way to a treasure.",
     "There was a red cross on the map, {Q.at}."],
    ["{H} showed the map to {H.his} friend {F}, a " + TRAITS + " {G}.",
     "{H} had a friend, {G.a} named {F}. {H} showed {F.him} the map."],
    ["\"Let us go and find it,\" said {F}.", "\"We can find it together,\" said {F}.", "\"I will come with you,\" said {F}."],
    ["The two friends [walked|went] to {Q}.", "So they set out for {Q}.", "Early in the morning, they went to {Q}."],
    ["On the way, they came to {Z}.", "But then they came to {Z}.", "Soon they stood before {Z}."],
    ["\"How can we get past it?\" asked {H}.", "\"What shall we do now?\" asked {H}.", "\"We must go back,\" said {H}."],
    ["{F} had an idea, and they {Z.past}.", "But {F} did not give up, and they {Z.past}.",
     "\"I know what to do,\" said {F}. So they {Z.past}."],
    ["{Q.At}, they began to dig.", "At last, they found the place and began to dig.",
     "Then {H} saw the red cross, and they began to dig."],
    ["Deep in the ground, they found {I}!", "\"Look!\" cried {F}. It was {I}.", "And there it was: {I}!"],
    ["\"Half of it is yours,\" {H} told {F}.", "\"We found it together,\" said {F}.", "\"We did it!\" cried {H}."],
    ["They carried the treasure home and showed it to everyone.", "{H} and {F} shared the treasure with all their friends.",
     "In the evening, {H} told {H.his} {M} about the treasure."],
    FRIENDS + [""],
]

RACE = [
    INTRO,
    ["{H} was very fast.", "{H} loved to run."],
    [DAY + ", there was a race from {P} to {Q}.", DAY + ", everyone met for a race from {P} to {Q}."],
    ["{F}, a " + TRAITS + " {G}, wanted to run too.", "A " + TRAITS + " {G} named {F} was there too."],
    ["\"I will win,\" said {F}.", "\"I am faster than you,\" said {F}.", "\"Good luck, {H}!\" said {F}."],
    ["\"One, two, three, go!\" And they ran.", "Then the race began.", "A bell rang, and the race began."],
    ["At first, {H} was in front.", "{H} and {F} ran side by side.", "{H} ran as fast as the wind."],
    ["But then {F} fell over a [stone|root] and hurt {F.his} [leg|foot].", "Suddenly, {F} fell into a hole."],
    ["\"Help!\" cried {F}.", "{F} could not get up.", "\"I cannot go on,\" said {F}."],
    ["{H} heard it and stopped.", "{H} looked back. Then {H.he} stopped.", "{H} wanted to win, but {H.he} turned back."],
    ["{H} helped {F} to stand up.", "\"Hold on to me,\" said {H}.", "\"I will help you,\" said {H}."],
    ["Step by step, they walked to {Q} together.", "Slowly, they walked on to {Q}, arm in arm."],
    ["They came in last, but everyone clapped.", "They did not win, but everyone cheered for them."],
    ["\"You are the real winner,\" said {F}.", "\"A friend is better than a prize,\" said {H}.",
     "\"Thank you, {H},\" said {F}."],
    FRIENDS,
]

# name: (steps, types that differ from grammar.TYPES, what a request may name beside the characters)
PLOTS = {
    "lost": (LOST, {}, ["{O.a}", "a {C} {O}"]),
    "stuck": (STUCK, {"O": "light"}, ["{O.a}", "a {C} {O}"]),
    "broken": (BROKEN, {"O": "fragile"}, ["{O.a}", "a broken {O}"]),
    "share": (SHARE, {}, ["two {E.s}"]),
    "learn": (LEARN, {}, ["learning to {A}"]),
    "fear": (FEAR, {}, ["{B}"]),
    "gift": (GIFT, {}, ["a birthday", "{O.a}"]),
    "baby": (BABY, {}, ["a little {Y}", "a lost {Y}"]),
    "trip": (TRIP, {}, ["a picnic"]),
    "build": (BUILD, {}, ["{D.a}"]),
    "treasure": (TREASURE, {}, ["a treasure", "an old map"]),
    "race": (RACE, {}, ["a race"]),
    "garden": (GARDEN, {}, ["{N.a}"]),
}
