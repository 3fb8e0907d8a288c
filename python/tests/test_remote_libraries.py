# SPDX-License-Identifier: Apache-2.0
"""Steps in object stores of obstore and fsspec."""

from __future__ import annotations

import urllib.request

import pytest

import ckptdb
from ckptdb import remote
from remote_targets import MemoryStore, check_round_trip, expect_step, saved, service


def test_obstore_memory(saved, tmp_path):
    stores = pytest.importorskip("obstore.store")
    check_round_trip(saved, stores.MemoryStore(), tmp_path)


def test_obstore_folder_is_that_of_the_url(saved, tmp_path):
    stores = pytest.importorskip("obstore.store")
    folder = tmp_path / "remote"
    target = stores.LocalStore(folder, mkdir=True)
    check_round_trip(saved, target, tmp_path)
    assert remote.ls(f"file://{folder}") == remote.ls(target)
    with pytest.raises(ckptdb.InvalidArgument, match="prefix"):
        remote.ls(stores.LocalStore())


def test_obstore_errors(saved):
    stores = pytest.importorskip("obstore.store")
    target = stores.S3Store(
        "bucket",
        endpoint="http://127.0.0.1:1",
        access_key_id="id",
        secret_access_key="the-secret",
        region="us-east-1",
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    with pytest.raises(ckptdb.Unavailable) as caught:
        remote.push(saved.path, target)
    assert "bucket" in str(caught.value)
    assert "the-secret" not in str(caught.value)


def test_fsspec_memory(saved, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory", skip_instance_cache=True)
    try:
        check_round_trip(saved, (files, "models/ctr"), tmp_path)
        with pytest.raises(ckptdb.InvalidArgument, match="pair"):
            remote.ls(files)
    finally:
        files.store.clear()


def test_fsspec_folder_is_that_of_the_url(saved, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    target = (fsspec.filesystem("file"), str(tmp_path / "remote"))
    check_round_trip(saved, target, tmp_path)
    assert remote.ls(f"file://{tmp_path}/remote") == remote.ls(target)


def test_fsspec_that_overwrites_is_refused(saved):
    fsspec = pytest.importorskip("fsspec")
    memory = type(fsspec.filesystem("memory"))

    class Overwriting(memory):
        protocol = "careless"
        store: dict = {}
        pseudo_dirs = [""]

        def pipe_file(self, path, value, mode="overwrite", **options):
            super().pipe_file(path, value, **options)

    with pytest.raises(ckptdb.FailedPrecondition, match="If-None-Match"):
        remote.push(saved.path, (Overwriting(), "models/ctr"))


def test_fsspec_of_a_cloud_is_refused(saved):
    fsspec = pytest.importorskip("fsspec")

    class Cloud(type(fsspec.filesystem("memory"))):
        protocol = ("s3", "s3a")

    with pytest.raises(ckptdb.InvalidArgument, match=r"obstore\.store\.S3Store"):
        remote.push(saved.path, (Cloud(), "bucket/ctr"))


def s3_store(stores, url):
    return stores.S3Store(
        "bucket",
        prefix="models/ctr",
        endpoint=url,
        access_key_id="test-id",
        secret_access_key="test-secret",
        region="us-east-1",
        client_options={"allow_http": True},
    )


def test_obstore_in_s3_is_that_of_the_url(saved, tmp_path, monkeypatch):
    stores = pytest.importorskip("obstore.store")
    with service(tmp_path, ["moto_server", "-H", "127.0.0.1", "-p", "PORT"]) as url:
        made = urllib.request.Request(f"{url}/bucket", method="PUT")
        urllib.request.urlopen(made).close()
        target = s3_store(stores, url)
        check_round_trip(saved, target, tmp_path)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test-id")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test-secret")
        by_url = f"s3://bucket/models/ctr?endpoint={url}"
        try:
            assert remote.ls(by_url) == remote.ls(target)
        except ckptdb.Unimplemented:
            pytest.skip("this package was built without libcurl")
        assert remote.verify(by_url, data=True).damage == []
        remote.fetch(by_url, tmp_path / "by-url")
        expect_step(str(tmp_path / "by-url"), 3)
        # A put by the URL is seen by the store.
        assert remote.push(saved.path, by_url, take_over=True).shipped == []
        other = f"s3://bucket/models/other?endpoint={url}"
        assert remote.push(saved.path, other).shipped == [1, 2, 3]


def test_obstore_with_a_service_that_overwrites_is_refused(saved, tmp_path):
    stores = pytest.importorskip("obstore.store")
    (tmp_path / "data/bucket").mkdir(parents=True)
    words = ["rclone", "serve", "s3", "--config", "/dev/null", "--addr", "ADDRESS"]
    words += ["--auth-key", "test-id,test-secret", str(tmp_path / "data")]
    with service(tmp_path, words) as url:
        with pytest.raises(ckptdb.FailedPrecondition, match="If-None-Match"):
            remote.push(saved.path, s3_store(stores, url))
