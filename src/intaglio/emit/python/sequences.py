"""Sequences, optionals and strings in Python."""

from __future__ import annotations

from intaglio.emit.python.words import (
    prints,
)
from intaglio.emit.pythonic.block import (
    Site,
    quoted,
)


@prints("Lookup", domain="intaglio")
def _look_up(site: Site) -> str:
    return site.call("look_up", *(site.x(position) for position in range(len(site.node.inputs))))


@prints("SequenceLength")
def _sequence_length(site: Site) -> str:
    return f"xp.asarray(len({site.x(0)}), dtype=xp.int64)"


@prints("OptionalHasElement")
def _has_element(site: Site) -> str:
    return f"xp.asarray({site.optional(0)} is not None)"


@prints("ConcatFromSequence")
def _concat_from_sequence(site: Site) -> str:
    function = "stack" if site.op.new_axis else "concatenate"
    return f"xp.{function}({site.x(0)}, axis={site.op.axis})"


@prints("StringConcat")
def _string_concat(site: Site) -> str:
    return site.call("join_strings", site.x(0), site.x(1))


@prints("StringSplit")
def _string_split(site: Site) -> str:
    delimiter = quoted(site.op.delimiter) if site.op.delimiter else "None"
    found = site.call("split_strings", site.x(0), delimiter, str(site.op.maxsplit))
    return found if len(site.node.outputs) == 2 else f"{found}[0]"


@prints("StringNormalizer")
def _string_normalizer(site: Site) -> str:
    op = site.op
    words = ascii(list(op.stopwords or ()))
    return site.call(
        "normalize_strings", site.x(0), words, quoted(op.case_change_action), str(bool(op.is_case_sensitive))
    )


@prints("RegexFullMatch")
def _regex(site: Site) -> str:
    return site.call("match_strings", site.x(0), quoted(site.op.pattern or ""))


@prints("TfIdfVectorizer")
def _tf_idf(site: Site) -> str:
    op = site.op
    grams = op.pool_int64s if op.pool_int64s else op.pool_strings
    lists = [ascii(list(numbers)) for numbers in (grams, op.ngram_counts, op.ngram_indexes)]
    weights = ascii([float(number) for number in op.weights]) if op.weights else "None"
    lengths = [str(op.min_gram_length), str(op.max_gram_length), str(op.max_skip_count)]
    return site.call("count_ngrams", site.x(0), *lists, weights, *lengths, quoted(op.mode))
