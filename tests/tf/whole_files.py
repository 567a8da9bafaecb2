"""Whole files through ``tf.io.gfile``."""

from __future__ import annotations

import tensorflow as tf


def put(path: str, data: bytes = b"data") -> str:
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(data)
    return path


def get(path: str) -> bytes:
    with tf.io.gfile.GFile(path, "rb") as file:
        return file.read()
