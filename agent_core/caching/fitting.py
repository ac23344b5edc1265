"""Fits estimated sizes of a prompt's pieces to the tokens that were counted when it was sent."""

from collections.abc import Mapping, Sequence

from agent_core.caching.sent import PromptPiece

MAX_LEFT = 4
"""Tokens at the end of a prompt that no cache keeps; in recorded traffic there are 2 to 4."""


def prefixes_of(pieces: Sequence[PromptPiece]) -> list[int]:
    """Return for each of *pieces* a number for what the prompt is up to its end: equal for equal beginnings."""
    hashes, seen = list[int](), 0
    for piece in pieces:
        seen = hash((seen, piece.key))
        hashes.append(seen)
    return hashes


def fitted(pieces: Sequence[PromptPiece], total: int, sizes: Mapping[int, int]) -> list[PromptPiece]:
    """Return *pieces* with sizes that add up to *total*, in the proportion of their estimates.

    *sizes* has, by the place of a piece, the tokens counted up to its end: between two such places the proportion is
    the estimates' own. One that goes down, or beyond the total, is left out.
    """
    ends, counted, seen, estimate = list[int](), 0, 0, 0
    places: list[tuple[int, int]] = []
    for place, tokens in sorted(sizes.items()):
        if counted <= tokens <= total and place < len(pieces) - 1:
            places.append((place, tokens))
            counted = tokens
    begin, tokens_before = 0, 0
    for place, tokens in (*places, (len(pieces) - 1, total)):
        part = pieces[begin : place + 1]
        estimate, seen = sum(piece.tokens for piece in part), 0
        for n, piece in enumerate(part):
            seen += piece.tokens
            share = seen / estimate if estimate else (n + 1) / len(part)
            ends.append(tokens_before + round((tokens - tokens_before) * share))
        begin, tokens_before = place + 1, tokens
    starts = [0, *ends]
    return [
        PromptPiece(piece.key, piece.tier, end - start) for piece, start, end in zip(pieces, starts, ends, strict=False)
    ]
