"""The options of the data source: text, as Spark hands it over, and what it means."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tfio_store.dataset.names import DEFAULT_SHARD_BYTES
from tfio_store.example.schema import Schema
from tfio_store.storage import Retry, Storage
from tfio_store.storage.redaction import redacted

RECORD_TYPES = ("Example", "SequenceExample", "ByteArray")

_NO_TABLES = (
    "Spark gives a data source in Python neither the path nor the options of a table in its "
    "catalog: make a view instead, CREATE TEMPORARY VIEW name USING tfio_store OPTIONS "
    "(path 'url')"
)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The source to read, and how."""

    source: str | list[str]
    record_type: str | None
    schema: Schema | None
    columns: tuple[str, ...] | None
    infer_schema: bool
    target_bytes: int
    num_partitions: int | None
    compression: str | None
    on_corrupt: Any
    storage: Storage

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ReadOptions:
        """ValueError for an unknown option, or one that holds something else than it takes."""
        given = _Given(options)
        urls = given.urls()
        record_type = given.take("recordType", _record_type)
        schema = given.take("schema", _schema_or_word)
        infer_schema = given.take("inferSchema", _flag, default=False)
        if schema == "auto":
            schema, infer_schema = None, True
        if schema == "bytes" and record_type in (None, "ByteArray"):
            schema, record_type = None, "ByteArray"
        elif schema == "bytes":
            raise ValueError(
                f'recordType "{record_type}" makes columns, and schema "bytes" asks for records as '
                "they are: leave one of the two out"
            )
        made = cls(
            source=urls[0] if len(urls) == 1 else urls,
            record_type=record_type,
            schema=schema,
            columns=given.take("columns", _names),
            infer_schema=infer_schema,
            target_bytes=given.take("maxPartitionBytes", _count, default=128 << 20),
            num_partitions=given.take("numPartitions", _count),
            compression=given.take("compression", _codec, default="auto"),
            on_corrupt=given.take("onCorrupt", _one_of("raise", "skip"), default="raise"),
            storage=given.storage(),
        )
        given.refuse_others("reading")
        decoded = made.schema is not None or made.infer_schema
        if made.record_type == "ByteArray" and decoded:
            raise ValueError(
                'recordType "ByteArray" gives records as they are: leave it out, or the options '
                "'schema' and 'inferSchema'"
            )
        return made

    @property
    def shown(self) -> str:
        """The source's name in errors, without secrets."""
        return redacted(str(self.source))


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Where to write, and how."""

    url: str
    record_type: str | None
    schema: Schema | None
    if_exists: str
    max_shard_bytes: int
    job: dict[str, Any] = field(repr=False)
    """Other arguments of `WriteJob`, with credentials."""

    @classmethod
    def of(cls, options: Mapping[str, str], *, overwrite: bool) -> WriteOptions:
        """ValueError for an unknown option, or one that holds something else than it takes."""
        given = _Given(options)
        urls = given.urls()
        record_type = given.take("recordType", _record_type)
        schema = given.take("schema", lambda text: text if text == "bytes" else _schema(text))
        if schema == "bytes":
            record_type, schema = record_type or "ByteArray", None
            if record_type != "ByteArray":
                raise ValueError(
                    f'schema "bytes" writes no {record_type}: leave one of the two out'
                )
        if len(urls) != 1:
            raise ValueError(f"save() takes the URL of one dataset, not {len(urls)}")
        job = {
            "compression": given.take("compression", _codec),
            "level": given.take("level", int),
            "names": given.take("names", _one_of("tagged", "plain"), default="tagged"),
            "keep_replaced": given.take("keepReplaced", float, default=3600.0),
        }
        made = cls(
            url=urls[0],
            record_type=record_type,
            schema=schema,
            if_exists=given.take("ifExists", _if_exists(overwrite), default=_by_mode(overwrite)),
            max_shard_bytes=given.take("maxShardBytes", _count, default=DEFAULT_SHARD_BYTES),
            job=job | {"storage": given.storage()},
        )
        given.refuse_others("writing")
        if made.record_type == "ByteArray" and made.schema is not None:
            raise ValueError(
                'recordType "ByteArray" writes bytes as they are: leave it out, or the option '
                "'schema'"
            )
        return made


class _Given:
    """Options that are taken one by one. Spark knows no case in their names."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._left = {name.lower(): value for name, value in options.items()}
        self._known: list[str] = []

    def take(self, name: str, parse: Callable[[str], Any], default: Any = None) -> Any:
        self._known.append(name)
        text = self._left.pop(name.lower(), None)
        if text is None:
            return default
        try:
            return parse(text)
        except (ValueError, TypeError) as error:
            raise ValueError(f"option {name!r}: {error}") from None

    def urls(self) -> list[str]:
        several = self.take("paths", _urls, default=())
        one = self.take("path", str)
        urls = [*([] if one is None else [one]), *several]
        if "provider" in self._left:  # what Spark adds where a table is created
            raise ValueError(f"a table of this format can't be read later. {_NO_TABLES}")
        if not urls:
            raise ValueError(
                f"name a dataset, a file or a glob: load(url), or save(url). {_NO_TABLES}"
            )
        return urls

    def storage(self) -> Storage:
        return Storage(
            self.take("storageOptions", _object),
            retry=self.take("retry", lambda text: Retry(**_object(text))),
            backend=self.take("backend", str, default="auto"),
        )

    def refuse_others(self, doing: str) -> None:
        if self._left:
            odd = ", ".join(sorted(self._left))
            there = ", ".join(name for name in self._known if name not in ("path", "paths"))
            raise ValueError(f"no such options of {doing}: {odd}; there are {there}")


def _record_type(text: str) -> str:
    found = {known.lower(): known for known in RECORD_TYPES}.get(text.lower())
    if found is None:
        raise ValueError(f"takes one of {', '.join(RECORD_TYPES)}, not {text!r}")
    return found


def _object(text: str) -> dict[str, Any]:
    """The error does not show the text, which may hold secrets."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError('takes a JSON object, such as {"key": "value"}')
    return found


def _schema(text: str) -> Schema:
    features = _object(text)
    if not isinstance(features.get("features"), dict):
        features = {name: _dtype_and_shape(given) for name, given in features.items()}
    return Schema.of(features)


def _schema_or_word(text: str) -> Any:
    return text if text in ("auto", "bytes") else _schema(text)


def _dtype_and_shape(given: Any) -> Any:
    if not isinstance(given, list):
        return given
    if len(given) != 2 or not isinstance(given[1], list):
        raise ValueError(
            f'takes a dtype, or a list of it and a shape: ["float32", [3]], not {given}'
        )
    return given[0], tuple(given[1])


def _names(text: str) -> tuple[str, ...]:
    named = _strings(text) if text.startswith("[") else [each.strip() for each in text.split(",")]
    if not named or not all(named):
        raise ValueError('takes names with commas between, or a JSON list of them: ["a", "b"]')
    return tuple(named)


def _urls(text: str) -> tuple[str, ...]:
    urls = _strings(text)
    if urls is None:
        raise ValueError('takes a JSON list of URLs: ["s3://b/one", "s3://b/two"]')
    return tuple(urls)


def _strings(text: str) -> list[str] | None:
    """A JSON list of strings, or None for anything else."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    is_list = isinstance(found, list) and all(isinstance(each, str) for each in found)
    return found if is_list else None


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"takes true or false, not {text!r}")
    return text.lower() == "true"


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"takes a positive number, not {text!r}")
    return int(text)


def _codec(text: str) -> str | None:
    lowered = text.lower()
    if lowered in ("", "none", "uncompressed"):
        return None
    return "auto" if lowered == "auto" else text.upper()


def _one_of(*words: str) -> Callable[[str], str]:
    def word(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"takes one of {', '.join(words)}, not {text!r}")
        return text.lower()

    return word


def _by_mode(overwrite: bool) -> str:
    return "overwrite" if overwrite else "append"


def _if_exists(overwrite: bool) -> Callable[[str], str]:
    """Spark itself has only two modes for this kind of source."""

    def word(text: str) -> str:
        if text.lower() != "error" or overwrite:
            raise ValueError('takes "error", by which mode("append") refuses a dataset that exists')
        return "error"

    return word
