"""tf.train.Example for protobuf, without TensorFlow, whose import takes longer than some runs."""

from __future__ import annotations

from typing import Any

__all__ = ["example_class"]

_LISTS = (("BytesList", "BYTES"), ("FloatList", "FLOAT"), ("Int64List", "INT64"))


def example_class() -> Any:
    """The class of the message, as TensorFlow's ``example.proto`` and ``feature.proto`` have it."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="bench/example.proto", package="bench", syntax="proto3"
    )

    def message(name: str, into: Any = file.message_type) -> Any:
        made = into.add()
        made.name = name
        return made

    def field(of: Any, name: str, number: int, kind: str, **more: Any) -> Any:
        repeated = more.pop("repeated", False)
        label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
        type_ = getattr(kinds, f"TYPE_{kind}")
        return of.field.add(name=name, number=number, type=type_, label=label, **more)

    for name, kind in _LISTS:
        field(message(name), "value", 1, kind, repeated=True)
    feature = message("Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, kind) in enumerate(_LISTS, 1):
        field(
            feature,
            f"{kind.lower()}_list",
            number,
            "MESSAGE",
            type_name=f".bench.{name}",
            oneof_index=0,
        )
    features = message("Features")
    entry = message("FeatureEntry", features.nested_type)
    entry.options.map_entry = True
    field(entry, "key", 1, "STRING")
    field(entry, "value", 2, "MESSAGE", type_name=".bench.Feature")
    field(
        features,
        "feature",
        1,
        "MESSAGE",
        type_name=".bench.Features.FeatureEntry",
        repeated=True,
    )
    field(message("Example"), "features", 1, "MESSAGE", type_name=".bench.Features")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.Example"))
