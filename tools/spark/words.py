# SPDX-License-Identifier: MIT
"""The words that stories and chats are made of, as plain tables."""

GIRLS = ("Mia Lily Anna Rosa Nora Ella Ruby Zoe Ivy Clara Maya Lucy Emma Tina Hazel Daisy Olive Penny Wendy Greta "
         "Molly Sara Fiona Juno").split()
BOYS = ("Tom Ben Max Leo Sam Finn Jack Oscar Hugo Otto Felix Noah Peter Theo Milo Henry Arthur Dan Louis Emil "
        "Rudi Karl Simon Victor").split()

ANIMALS = "fox rabbit bear mouse cat dog duck frog owl squirrel hedgehog beaver badger goat otter turtle pony lion elephant penguin".split()
FOLK = "dragon robot wizard knight pirate giant fairy".split()
KINDS = ["girl", "boy", "princess", "prince"] + ANIMALS + FOLK
FEMALE, MALE = ("girl", "princess"), ("boy", "prince")
TRAITS = "little kind brave clever quiet cheerful curious gentle young friendly small happy".split()
COLOURS = "red blue green yellow white black brown pink purple golden silver".split()
RELATIVES = "mother father grandmother grandfather".split()

# place, and the same place with the word that says "there"
PLACES = [("the " + noun, prep + " the " + noun) for prep, nouns in (
    ("in", "forest garden park meadow barn village valley field castle cave"),
    ("at", "market farm beach school harbour station library"),
    ("by", "river lake pond bridge mill well tower"),
    ("on", "hill island"),
) for noun in nouns.split()]

HOMES = ["by a river", "near the forest", "on a green hill", "at the edge of a village", "by the sea", "in a big city", "in an old castle",
         "in a quiet valley", "near an old mill", "by a small lake"]

# things to have and to lose: noun, the part that breaks (or None), what mends it, whether the wind can carry it
OBJECTS = [
    ("kite", "tail", "some string", True), ("ball", None, None, True), ("drum", "strap", "a piece of rope", False),
    ("doll", "arm", "a needle and thread", False), ("hat", None, None, True), ("scarf", None, None, True),
    ("boat", "sail", "a needle and thread", False), ("bell", "handle", "a small screw", False),
    ("book", "cover", "some glue", False), ("lamp", "handle", "a small screw", False), ("flute", None, None, False),
    ("key", None, None, False), ("ring", None, None, False), ("wagon", "wheel", "a new nail", False),
    ("basket", "handle", "a piece of rope", False), ("umbrella", "handle", "some glue", True),
    ("balloon", None, None, True), ("cup", "handle", "some glue", False), ("chair", "leg", "a new nail", False),
    ("clock", "hand", "a small screw", False), ("ribbon", None, None, True), ("whistle", None, None, False),
    ("blanket", None, None, True), ("puppet", "string", "a needle and thread", False),
    ("robot", "arm", "a small screw", False), ("crown", None, None, False), ("sword", None, None, False),
    ("flag", None, None, True), ("bottle", None, None, False), ("violin", "string", "some glue", False),
    ("bag", "strap", "a needle and thread", False), ("train", "wheel", "a new nail", False),
]

# a place where something gets stuck, and the thing that reaches it
STUCK = [("in a tall tree", "a ladder"), ("on the roof of a barn", "a ladder"), ("on a high wall", "a long stick"),
         ("in a deep hole", "a rope"), ("down in a dry well", "a rope"), ("in a thorn bush", "a long stick"),
         ("on a rock in the water", "a fishing net")]

HIDING = ["under a bush", "behind a big stone", "in the soft grass", "next to an old fence", "under a pile of leaves",
          "behind a wooden box"]

# food: singular with article, plural
FOODS = [("an apple", "apples"), ("a pear", "pears"), ("a cake", "cakes"), ("a sandwich", "sandwiches"),
         ("a plum", "plums"), ("a carrot", "carrots"), ("a cookie", "cookies"), ("a peach", "peaches"),
         ("a bun", "buns"), ("a pie", "pies")]

# how a kindness comes back: the trouble, the hero's state, the helper's words, the deed
TROUBLES = [("it began to rain", "was wet", "Come under my umbrella", "walked home under the umbrella"),
            ("it grew cold", "began to shiver", "Take my warm coat", "walked home in the warm coat"),
            ("it grew dark", "lost the way", "Follow me, I know the way", "found the way home"),
            ("it began to snow", "could not see the path", "Hold my hand", "walked home hand in hand"),
            ("the bridge broke", "could not go home", "Come into my boat", "went home in the boat")]

# a skill: infinitive, past tense, where, what goes wrong, the advice
SKILLS = [
    ("swim", "swam", "at the lake", "swallowed some water", "Kick with your legs"),
    ("whistle", "whistled", "in the garden", "made no sound at all", "Make your lips round"),
    ("ride a bike", "rode the bike", "in the park", "fell on the grass", "Look ahead, not down"),
    ("skate", "skated", "on the frozen pond", "slipped on the ice", "Bend your knees"),
    ("climb", "climbed", "at the old oak", "slid back down", "Hold on to the strong branches"),
    ("juggle", "juggled", "in the meadow", "dropped all the balls", "Start with two balls"),
    ("row", "rowed", "on the river", "turned in a circle", "Pull with both arms"),
    ("bake bread", "baked bread", "in the kitchen", "burned the bread", "Take it out when it is golden"),
    ("paint", "painted", "at the window", "spilled the paint", "Use a small brush"),
    ("dance", "danced", "in the barn", "stepped on a bucket", "Listen to the music"),
]

# a fear: the thing, when it comes, what helps, what the friend does
FEARS = [
    ("the dark", "the light went out", "a small lamp", "lit a small lamp"),
    ("thunder", "a storm came", "a soft song", "sang a soft song"),
    ("deep water", "they had to cross a stream", "a strong hand", "held out a strong hand"),
    ("high places", "they had to cross a high bridge", "a strong hand", "held out a strong hand"),
    ("loud noises", "a big bell rang", "a funny joke", "told a funny joke"),
    ("spiders", "a spider sat on the door", "a glass jar", "took the spider outside in a glass jar"),
]

# a young animal: name, mother, the sound, its home
BABIES = [("duckling", "duck", "Quack", "the pond"), ("kitten", "cat", "Meow", "the barn"),
          ("puppy", "dog", "Woof", "the farm"), ("lamb", "sheep", "Baa", "the meadow"),
          ("chick", "hen", "Peep", "the farm"), ("calf", "cow", "Moo", "the field"),
          ("piglet", "pig", "Oink", "the farm"), ("owlet", "owl", "Hoo", "the old oak")]

# something to build: noun, the part one has, the part one lacks, what it is good for
BUILDS = [
    ("a raft", "some logs", "a long rope", "sailed down the river"),
    ("a swing", "a wooden board", "a long rope", "took turns on the swing"),
    ("a snowman", "a lot of snow", "a carrot", "danced around the snowman"),
    ("a bird house", "some boards", "a box of nails", "watched the first bird move in"),
    ("a paper lantern", "some paper", "a candle", "watched the lantern glow"),
    ("a tree house", "some boards", "a hammer", "looked out over the fields"),
    ("a sand castle", "a lot of sand", "a bucket", "put a flag on the castle"),
    ("a scarecrow", "some straw", "an old coat", "put the scarecrow in the field"),
]

# a plant: the seed, what grows, what is made of it
PLANTS = [("a pumpkin seed", "a big pumpkin", "pumpkin soup"), ("an apple seed", "a young apple tree", "apple pie"),
          ("a sunflower seed", "a tall sunflower", "a bunch of flowers"), ("a bean", "a long bean plant", "bean soup"),
          ("a strawberry seed", "a row of strawberries", "strawberry jam"), ("a carrot seed", "a fat carrot", "carrot cake"),
          ("a tomato seed", "a red tomato", "tomato soup"), ("a potato", "a heap of potatoes", "potato soup")]

# bad weather on a trip, and the shelter
STORMS = [("a heavy rain began", "the rain stopped"), ("a strong wind came up", "the wind went away"),
          ("a cold fog came down", "the fog went away"), ("it began to hail", "the hail stopped"),
          ("a storm came over the hill", "the storm passed")]
SHELTERS = ["under a stone bridge", "in an empty barn", "in a dry cave", "under a big oak", "in an old hut"]

# work for a coin: the employer, the task
JOBS = [("the baker", "carried bread"), ("the farmer", "picked apples"), ("the miller", "swept the floor"),
        ("the gardener", "watered the flowers"), ("the tailor", "sorted buttons"), ("the fisherman", "mended nets"),
        ("the shepherd", "counted sheep")]

# what lies on the way to a treasure, and how one gets past it
HURDLES = [("a wide river", "built a small raft"), ("a dark cave", "lit a candle"), ("a high wall", "climbed over it"),
           ("a deep valley", "crossed it on a rope"), ("a thick hedge", "cut a path through it"),
           ("a locked gate", "found the key under a stone")]
TREASURES = ["a bag of gold coins", "a silver crown", "a box of old toys", "a pot of sweet honey", "a golden ring",
             "a big book of stories", "a chest full of apples"]


def a(noun):
    """The noun with its article."""
    return ("an " if noun[0] in "aeiou" else "a ") + noun
