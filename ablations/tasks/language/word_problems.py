"""Word problems from a local file, answered by a model from a local folder.

The text is the trainer's to encode, whose model brings the tokenizer: `WordProblems.encoded` gives
what it then reads, of the same form as `ablations.tasks.language.Problems`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ablations.errors import UserError
from ablations.tasks.language.answers import Record, read_records
from ablations.tasks.task import Task, register

if TYPE_CHECKING:
    import jax

    from ablations.tasks.language.puzzles import Problem

NAME = "word_problems"
PROMPT = "Question: {question}\nAnswer:"
LONGEST_TOKEN = 16  # characters of a token that are read; longer ones are runs of spaces or signs


class Encoder(Protocol):
    """Text to tokens and back. pad is no token of a text; end stops a completion."""

    pad: int
    end: int

    def encode(self, text: str) -> list[int]: ...
    def decode(self, ids: Any) -> str: ...


@dataclass(frozen=True)
class WordProblems:
    """Problems as text. model: the folder. prompt_length, response_length: tokens at most."""

    model: Path
    records: tuple[Record, ...]
    held_out: tuple[Record, ...]
    prompt_length: int
    response_length: int

    def encoded(self, tokens: Encoder, vocabulary: int) -> EncodedProblems:
        """Prompts in tokens, padded on the left, and answers as numbers. Raises UserError where a
        prompt is longer than there is room for."""
        import numpy as np

        from ablations.tasks.language.number_reader import NOTHING, class_of

        classes = np.full((vocabulary, LONGEST_TOKEN), NOTHING, np.int8)
        for token in range(vocabulary):
            if token not in (tokens.pad, tokens.end):
                text = tokens.decode([token])[-LONGEST_TOKEN:]
                classes[token, : len(text)] = [class_of(character) for character in text]
        return EncodedProblems(
            self._encoded(self.records, tokens),
            self._encoded(self.held_out, tokens),
            classes,
            tokens.end,
        )

    def _encoded(self, records: Sequence[Record], tokens: Encoder) -> dict[str, Any]:
        import numpy as np

        from ablations.tasks.language.number_reader import as_number

        ids = [tokens.encode(PROMPT.format(question=record.question)) for record in records]
        longest = max(map(len, ids))
        if longest > self.prompt_length:
            raise UserError(
                f"the longest prompt has {longest} tokens: set prompt_length={longest} or more"
            )
        prompts = np.full((len(ids), self.prompt_length), tokens.pad, np.int32)
        for row, prompt in zip(prompts, ids, strict=True):
            row[len(row) - len(prompt) :] = prompt
        answers = [as_number(record.answer) for record in records]
        return {
            "prompt": prompts,
            "negative": np.asarray([answer.negative for answer in answers]),
            "mantissa": np.asarray([answer.mantissa for answer in answers]),
            "scale": np.asarray([answer.scale for answer in answers]),
        }


@dataclass(frozen=True, eq=False)
class EncodedProblems:
    """What the trainer asks: problems to train on and to be judged by, and which answers are right.

    training, held: prompts [N, S] and the numbers [N] that answer them. classes: [V, C], the
    characters of each token as `number_reader` sees them. A problem's `answer` is its number:
    sign, mantissa, scale.
    """

    training: Mapping[str, Any]
    held: Mapping[str, Any]
    classes: Any
    end: int
    kinds: tuple[str, ...] = (NAME,)
    scales: tuple[float, ...] = (1.0,)

    def train(self, key: jax.Array, set_key: jax.Array, count: int) -> Problem:
        """A batch of training problems, leaves [count, ...], none twice before all were taken."""
        return _drawn(self.training, key, count)

    def held_out(self, key: jax.Array, count: int) -> Problem:
        """Problems that are never trained on, leaves [count, ...]."""
        return _drawn(self.held, key, count)

    def is_new(self, problems: Problem, set_key: jax.Array) -> jax.Array:
        """float32 [P] of ones: the files tell training and held-out problems apart."""
        import jax.numpy as jnp

        return jnp.ones(problems.prompt.shape[0])

    def correct(self, problems: Problem, responses: jax.Array) -> jax.Array:
        """bool [P, K]: which of the responses [P, K, L] give the number, up to the end token."""
        import jax
        import jax.numpy as jnp

        from ablations.tasks.language.number_reader import NOTHING, Number, read_number, same_number

        ended = jnp.cumsum(responses == self.end, axis=-1) > 0
        seen = jnp.where(ended[..., None], NOTHING, jnp.asarray(self.classes)[responses])
        characters = seen.reshape(*responses.shape[:2], -1)
        found = jax.vmap(jax.vmap(read_number))(characters)
        negative, mantissa, scale = (problems.answer[:, i, None] for i in range(3))
        wanted = Number(
            jnp.ones((), bool), negative != 0, mantissa.astype(jnp.uint32), scale.astype(jnp.int32)
        )
        return same_number(found, wanted)

    def reward(self, correct: jax.Array, kind: jax.Array, key: jax.Array | None) -> jax.Array:
        """float32 [P, K]: 1 for a right answer, 0 for a wrong one."""
        import jax.numpy as jnp

        return correct.astype(jnp.float32)


def _drawn(of: Mapping[str, Any], key: jax.Array, count: int) -> Problem:
    import jax
    import jax.numpy as jnp

    from ablations.tasks.language.puzzles import Problem

    total = of["prompt"].shape[0]
    order = jnp.resize(jax.random.permutation(key, total), (count,))
    # One array of integers for all three: a mantissa keeps its bits in int32.
    answer = jnp.stack(
        [
            jnp.asarray(of["negative"], jnp.int32),
            jax.lax.bitcast_convert_type(jnp.asarray(of["mantissa"]), jnp.int32),
            jnp.asarray(of["scale"], jnp.int32),
        ],
        axis=-1,
    )
    return Problem(jnp.asarray(of["prompt"])[order], answer[order], jnp.zeros(count, jnp.int32))


def _records(settings: Mapping[str, Any]) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
    """Those to train on, and those held out: of test_records, or else the last tenth."""
    records = read_records(Path(settings["records"]).expanduser())
    if settings["test_records"]:
        return tuple(records), tuple(read_records(Path(settings["test_records"]).expanduser()))
    if len(records) < 2:
        raise UserError(
            f"{settings['records']} holds one record, and one must be held out: add records, or "
            f"set test_records"
        )
    count = max(1, len(records) // 10)
    return tuple(records[:-count]), tuple(records[-count:])


def _make(settings: Mapping[str, Any]) -> WordProblems:
    records, held_out = _records(settings)
    return WordProblems(
        model=Path(settings["model"]).expanduser(),
        records=records,
        held_out=held_out,
        prompt_length=settings["prompt_length"],
        response_length=settings["response_length"],
    )


def _check(settings: Mapping[str, Any]) -> list[str]:
    complaints = [
        f"task '{NAME}' needs {name}: set {name}={what}"
        for name, what in (
            ("model", "the folder of a model"),
            ("records", "a JSON-lines file with question and answer"),
        )
        if not settings[name]
    ]
    complaints += [
        f"{name}={settings[name]} is too small: at least 2"
        for name in ("prompt_length", "response_length")
        if settings[name] < 2
    ]
    if complaints:
        return complaints
    config = Path(settings["model"]).expanduser() / "config.json"
    if not config.is_file():
        complaints.append(f"model={settings['model']} is not the folder of a model: no config.json")
    try:
        _records(settings)
    except UserError as error:
        complaints.append(str(error))
    return complaints


register(
    Task(
        name=NAME,
        summary="word problems of a JSON-lines file (GSM8K's form), by a Qwen2 model of a folder",
        make=_make,
        settings={
            "model": "",
            "records": "",
            "test_records": "",
            "prompt_length": 256,
            "response_length": 256,
        },
        steps=64 * 200,
        source="own choice",
        check=_check,
    )
)
