"""A real S3-compatible storage of another project, and that project's own client as a judge of what is in it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

from handspan.config.store_settings import BucketSettings

PREFIX = "a b/"


class Storage:
    """A running storage with one bucket."""

    def __init__(self, server: ThreadedMotoServer) -> None:
        host, port = server.get_host_and_port()
        self.server = server
        self.settings = BucketSettings(
            url=f"http://{host}:{port}",
            bucket=f"handspan-{os.urandom(8).hex()}",  # the servers of one process share their buckets
            prefix=PREFIX,
            access_key="env:TESTS_KEY",
            secret_key="secret",
        )
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=self.settings.url,
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            region_name="us-east-1",
        )
        self.client.create_bucket(Bucket=self.settings.bucket)

    def objects(self) -> list[str]:
        """The keys of all objects."""
        found = self.client.list_objects_v2(Bucket=self.settings.bucket).get("Contents", ())
        return [one["Key"] for one in found]

    def variables(self, above: int) -> dict[str, str]:
        """The environment in which a gateway puts artifacts above this size here."""
        names = ("url", "bucket", "prefix", "access_key", "secret_key")
        given = {f"HANDSPAN_STORE__OBJECTS__{name.upper()}": getattr(self.settings, name) for name in names}
        return {**given, "HANDSPAN_STORE__OBJECTS__ABOVE": f"{above}", "TESTS_KEY": "key"}


@contextmanager
def running_storage() -> Iterator[Storage]:
    """A storage that ends with the block."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield Storage(server)
    finally:
        server.stop()
