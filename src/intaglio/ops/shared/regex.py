"""Regular expressions in RE2's syntax, matched by following all states at once: linear time, no backtracking.

Only whether a whole text matches is asked, so groups, their names and greediness parse but make no difference.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

from intaglio.errors import LimitError, ShapeError, UnsupportedError

STATE_LIMIT = 20_000
REPEAT_LIMIT = 1000
DEPTH_LIMIT = 100

Test: TypeAlias = Callable[[str], bool]
Check: TypeAlias = Callable[[str, int], bool]


@dataclass(frozen=True)
class Character:
    """One character that passes a test."""

    test: Test


@dataclass(frozen=True)
class Empty:
    """A place in the text that passes a check: a start, an end, a word boundary."""

    check: Check


@dataclass(frozen=True)
class Sequence:
    """Parts one behind the other."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True)
class Choice:
    """One of several parts."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True)
class Repeat:
    """A part at least `least` and at most `most` times (None: any number)."""

    part: Tree
    least: int
    most: int | None


Tree: TypeAlias = Character | Empty | Sequence | Choice | Repeat


@dataclass(frozen=True)
class Flags:
    """The flags that hold at a place of the pattern."""

    ignore_case: bool = False
    dot_all: bool = False
    many_lines: bool = False


def _word(letter: str) -> bool:
    return letter.isascii() and (letter.isalnum() or letter == "_")


def _digit(letter: str) -> bool:
    return "0" <= letter <= "9"


def _space(letter: str) -> bool:
    return letter in "\t\n\f\r "


def _at_boundary(text: str, place: int) -> bool:
    before = place > 0 and _word(text[place - 1])
    return before != (place < len(text) and _word(text[place]))


def _negated(test: Test) -> Test:
    return lambda letter: not test(letter)


_SMALL: dict[str, Test] = {"d": _digit, "s": _space, "w": _word}
CLASSES = _SMALL | {name.upper(): _negated(test) for name, test in _SMALL.items()}
PLACES: dict[str, Check] = {
    "A": lambda text, place: place == 0,
    "z": lambda text, place: place == len(text),
    "b": _at_boundary,
    "B": lambda text, place: not _at_boundary(text, place),
}
CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
NAMED: dict[str, Test] = {
    "alnum": lambda c: c.isascii() and c.isalnum(),
    "alpha": lambda c: c.isascii() and c.isalpha(),
    "ascii": lambda c: c.isascii(),
    "blank": lambda c: c in "\t ",
    "cntrl": lambda c: c < " " or c == "\x7f",
    "digit": _digit,
    "graph": lambda c: "!" <= c <= "~",
    "lower": lambda c: "a" <= c <= "z",
    "print": lambda c: " " <= c <= "~",
    "punct": lambda c: "!" <= c <= "~" and not c.isalnum(),
    "space": lambda c: c in "\t\n\v\f\r ",
    "upper": lambda c: "A" <= c <= "Z",
    "word": _word,
    "xdigit": lambda c: c in "0123456789abcdefABCDEF",
}


class Parser:
    """Reads one pattern by recursive descent."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.place = 0
        self.depth = 0
        self.flags = Flags()

    def fail(self, what: str) -> ShapeError:
        """The error for a wrong pattern."""
        return ShapeError(f"the pattern {self.pattern[:80]!r} is wrong at {self.place}: {what}")

    def peek(self) -> str:
        """The next character, or nothing at the end."""
        return self.pattern[self.place : self.place + 1]

    def take(self, text: str) -> bool:
        """Step over `text` if it comes next."""
        found = self.pattern.startswith(text, self.place)
        self.place += len(text) if found else 0
        return found

    def next(self) -> str:
        """Step over one character."""
        if self.place >= len(self.pattern):
            raise self.fail("it ends too early")
        self.place += 1
        return self.pattern[self.place - 1]

    def parse(self) -> Tree:
        """The whole pattern."""
        tree = self.choice()
        if self.peek():
            raise self.fail("a ')' without a '('")
        return tree

    def choice(self) -> Tree:
        """Alternatives between bars; flags set inside end with it."""
        saved, branches = self.flags, [self.sequence()]
        while self.take("|"):
            branches.append(self.sequence())
        self.flags = saved
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def sequence(self) -> Tree:
        """Repeated atoms up to a bar, a closing bracket or the end."""
        parts: list[Tree] = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.repeats(self.atom()))
        return Sequence(tuple(parts))

    def repeats(self, tree: Tree) -> Tree:
        """An atom with its repetition, if there is one."""
        found = self.counts()
        if found is None:
            return tree
        self.take("?")
        if self.counts() is not None:
            raise self.fail("a repetition of a repetition")
        return Repeat(tree, *found)

    def counts(self) -> tuple[int, int | None] | None:
        """The bounds of *, +, ? or {n,m}; other braces stand for themselves."""
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(sign):
                return bounds
        if self.peek() != "{":
            return None
        inside, closed, _ = self.pattern[self.place + 1 : self.place + 12].partition("}")
        low, comma, high = inside.partition(",")
        if not closed or not low.isdecimal() or not (high == "" or high.isdecimal()):
            return None
        self.place += len(inside) + 2
        least, most = int(low), int(high) if high else None if comma else int(low)
        if max(least, most or 0) > REPEAT_LIMIT or (most is not None and most < least):
            raise self.fail(f"the repetition {{{inside}}} (at most {REPEAT_LIMIT}, in order)")
        return least, most

    def atom(self) -> Tree:
        """One character, class, place or group."""
        letter = self.next()
        match letter:
            case "(":
                return self.group()
            case "[":
                return Character(self.bracket())
            case ".":
                return Character((lambda c: True) if self.flags.dot_all else (lambda c: c != "\n"))
            case "^":
                return Empty(_line_start if self.flags.many_lines else PLACES["A"])
            case "$":
                return Empty(_line_end if self.flags.many_lines else PLACES["z"])
            case "\\":
                return self.escape()
            case "*" | "+" | "?":
                raise self.fail("nothing to repeat")
            case _:
                return Character(self.literal(letter))

    def literal(self, letter: str) -> Test:
        """The test for one character, in either case where case is ignored."""
        if not self.flags.ignore_case:
            return lambda c: c == letter
        same = {letter, letter.lower(), letter.upper()}
        return lambda c: c in same

    def group(self) -> Tree:
        """What stands behind a '(': a group, or flags for the rest of the enclosing one."""
        self.depth += 1
        if self.depth > DEPTH_LIMIT:
            raise LimitError(f"the pattern is nested more than {DEPTH_LIMIT} deep")
        saved, tree = self.flags, None
        if self.take("?") and not self.named() and self.flag_letters():
            tree, saved = Sequence(()), self.flags
        else:
            tree = self.choice()
            if not self.take(")"):
                raise self.fail("a '(' without a ')'")
        self.flags, self.depth = saved, self.depth - 1
        return tree

    def named(self) -> bool:
        """Step over the name of a group; refuse look-around and the like."""
        if self.take("P<") or (self.peek() == "<" and self.pattern[self.place + 1 : self.place + 2] not in "=!"):
            self.take("<")
            while self.next() != ">":
                pass
            return True
        if self.peek() in ("=", "!", "<", "P", ">", "#", "("):
            raise self.fail("look-around, references and conditions are not regular")
        return False

    def flag_letters(self) -> bool:
        """Read flags such as `i-s:`; whether they hold for the rest of the enclosing group."""
        value = True
        while (letter := self.next()) not in (":", ")"):
            names = {"i": "ignore_case", "s": "dot_all", "m": "many_lines"}
            if letter == "-":
                value = False
            elif letter in names:
                self.flags = replace(self.flags, **{names[letter]: value})
            elif letter != "U":
                raise self.fail(f"the flag {letter!r}")
        return letter == ")"

    def escape(self) -> Tree:
        """What stands behind a backslash outside of brackets."""
        letter = self.peek()
        if letter in PLACES and letter:
            self.place += 1
            return Empty(PLACES[letter])
        if self.take("Q"):
            quoted, _, _ = self.pattern[self.place :].partition("\\E")
            self.place += len(quoted)
            self.take("\\E")
            return Sequence(tuple(Character(self.literal(c)) for c in quoted))
        found = self.escaped()
        return Character(self.literal(found) if isinstance(found, str) else found)

    def escaped(self) -> str | Test:
        """A character or a class by its escape."""
        letter = self.next()
        if letter in CLASSES:
            return CLASSES[letter]
        if letter in CONTROLS:
            return CONTROLS[letter]
        if letter in ("p", "P"):
            return self.property(letter == "P")
        if letter == "x":
            return self.hexadecimal()
        if letter == "0" or (letter.isdecimal() and self.peek() in tuple("01234567")):
            return self.octal(letter)
        if letter.isalnum():
            raise self.fail(f"the escape \\{letter}")
        return letter

    def octal(self, letter: str) -> str:
        """A character by up to three octal digits."""
        digits = letter
        while len(digits) < 3 and self.peek() in tuple("01234567"):
            digits += self.next()
        if not set(digits) <= set("01234567"):
            raise self.fail("a reference to a group is not regular")
        return chr(int(digits, 8))

    def hexadecimal(self) -> str:
        """A character by two hexadecimal digits, or any number of them in braces."""
        digits = ""
        if self.take("{"):
            while (letter := self.next()) != "}":
                digits += letter
        else:
            digits = self.next() + self.next()
        if (
            not digits
            or len(digits) > 8
            or not set(digits) <= set("0123456789abcdefABCDEF")
            or int(digits, 16) > 0x10FFFF
        ):
            raise self.fail(f"the character number {digits[:12]!r}")
        return chr(int(digits, 16))

    def property(self, is_negated: bool) -> Test:
        """A class of Unicode's general categories."""
        name = self.next()
        if name == "{":
            name = ""
            while (letter := self.next()) != "}":
                name += letter
        is_negated ^= name.startswith("^")
        name = name.removeprefix("^")
        if len(name) > 2 or name[:1] not in tuple("CLMNPSZ"):
            raise UnsupportedError(
                f"the Unicode class {name[:40]!r} in a pattern; known: general categories such as L or Nd"
            )
        return lambda c: unicodedata.category(c).startswith(name) != is_negated

    def bracket(self) -> Test:
        """A class in brackets."""
        is_negated, tests, is_first = self.take("^"), list[Test](), True
        while is_first or self.peek() != "]":
            is_first = False
            tests.append(self.bracket_item())
        self.place += 1
        chosen = tuple(tests)
        if self.flags.ignore_case:
            found: Test = lambda c: any(t(c) or t(c.lower()[:1] or c) or t(c.upper()[:1] or c) for t in chosen)  # noqa: E731
        else:
            found = lambda c: any(t(c) for t in chosen)  # noqa: E731
        return _negated(found) if is_negated else found

    def bracket_item(self) -> Test:
        """A named class, a class escape, a character or a range of them."""
        if self.take("[:"):
            name, _, _ = self.pattern[self.place :].partition(":]")
            self.place += len(name) + 2
            if name.removeprefix("^") not in NAMED:
                raise self.fail(f"the class [:{name[:20]}:]")
            test = NAMED[name.removeprefix("^")]
            return _negated(test) if name.startswith("^") else test
        low = self.bracket_character()
        is_range = self.peek() == "-" and self.pattern[self.place + 1 : self.place + 2] not in ("]", "")
        if not isinstance(low, str) or not is_range:
            return low if not isinstance(low, str) else (lambda c: c == low)
        self.place += 1
        high = self.bracket_character()
        if not isinstance(high, str) or high < low:
            raise self.fail(f"a range from {low!r}")
        return lambda c: low <= c <= high

    def bracket_character(self) -> str | Test:
        """One character or class escape within brackets."""
        letter = self.next()
        return self.escaped() if letter == "\\" else letter


def _line_start(text: str, place: int) -> bool:
    return place == 0 or text[place - 1] == "\n"


def _line_end(text: str, place: int) -> bool:
    return place == len(text) or text[place] == "\n"


class Matcher:
    """States with a test for a character, with a check of the place, or with free ways to other states."""

    def __init__(self, tree: Tree) -> None:
        self.tests: list[Test | None] = []
        self.checks: list[Check | None] = []
        self.ways: list[list[int]] = []
        self.final = self._state()
        self.start = self._build(tree, self.final)

    def _state(self, test: Test | None = None, check: Check | None = None, *ways: int) -> int:
        if len(self.ways) >= STATE_LIMIT:
            raise LimitError(f"the pattern needs more than {STATE_LIMIT} states")
        self.tests.append(test)
        self.checks.append(check)
        self.ways.append(list(ways))
        return len(self.ways) - 1

    def _build(self, tree: Tree, after: int) -> int:
        """The state from which `tree` leads to `after`."""
        match tree:
            case Character(test):
                return self._state(test, None, after)
            case Empty(check):
                return self._state(None, check, after)
            case Sequence(parts):
                for part in reversed(parts):
                    after = self._build(part, after)
                return after
            case Choice(parts):
                return self._state(None, None, *(self._build(part, after) for part in parts))
            case Repeat(part, least, most):
                return self._build_repeat(part, least, most, after)

    def _build_repeat(self, part: Tree, least: int, most: int | None, after: int) -> int:
        if most is None:
            loop = self._state(None, None, after)
            self.ways[loop].append(self._build(part, loop))
            after = loop
        for _ in range((most or least) - least):
            after = self._state(None, None, after, self._build(part, after))
        for _ in range(least):
            after = self._build(part, after)
        return after

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        current = self.reach([self.start], text, 0)
        for place, letter in enumerate(text):
            current = self.reach(self.step(current, letter), text, place + 1)
        return self.final in current

    def step(self, states: Iterable[int], letter: str) -> list[int]:
        """The states to which a letter leads."""
        return [self.ways[s][0] for s in states if (test := self.tests[s]) is not None and test(letter)]

    def reach(self, states: list[int], text: str, place: int) -> set[int]:
        """The states with all that can be reached from them without a character."""
        found: set[int] = set()
        pending = list(states)
        while pending:
            state = pending.pop()
            if state in found:
                continue
            check = self.checks[state]
            if check is not None and not check(text, place):
                continue
            found.add(state)
            if self.tests[state] is None:
                pending += self.ways[state]
        return found


@lru_cache(maxsize=64)
def compile_pattern(pattern: str) -> Matcher:
    """The matcher of a pattern.

    >>> compile_pattern("(a|b)*c").matches("abac")
    True
    """
    return Matcher(Parser(pattern).parse())
