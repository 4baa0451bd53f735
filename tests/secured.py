"""A Redis and a MongoDB with TLS, passwords and users, as in production; and the certificates for them.

MongoDB speaks TLS itself. The Redis of the wheel is built without TLS, so a proxy in the test's event loop does it.
"""

from __future__ import annotations

import secrets
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pymongo import MongoClient
from redis import Redis

from cronflow.backends.redis.keys import RedisKeys
from cronflow.backends.redis.rights import acl_rule
from cronflow.testing.embedded import MongoServer, RedisServer
from cronflow.testing.tcp_proxy import TcpProxy
from tests.servers import started

ADMIN, PASSWORD = "root", "a password"
USER = "cronflow"


@dataclass(frozen=True)
class Certificates:
    """PEM files: an authority, a server's certificate with its key, and another authority that signed nothing."""

    authority: Path
    server: Path
    another: Path

    @property
    def context(self) -> ssl.SSLContext:
        """Of a server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server)
        return context


def certificates(folder: Path) -> Certificates:
    """Make them, for 127.0.0.1 and localhost."""
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(3)]
    authority = _signed("CronFlow tests", keys[0], "CronFlow tests", keys[0], authority=True)
    another = _signed("Another", keys[1], "Another", keys[1], authority=True)
    server = _signed("localhost", keys[2], "CronFlow tests", keys[0], authority=False)
    private = keys[2].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    made = Certificates(folder / "ca.pem", folder / "server.pem", folder / "another.pem")
    made.authority.write_bytes(_pem(authority))
    made.another.write_bytes(_pem(another))
    made.server.write_bytes(private + _pem(server))
    return made


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _signed(
    subject: str, key: ec.EllipticCurvePrivateKey, issuer: str, by: ec.EllipticCurvePrivateKey, *, authority: bool
) -> x509.Certificate:
    now = datetime.now(UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
    )
    if not authority:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(by, hashes.SHA256())


class SecuredMongo(MongoServer):
    """Requires TLS and a login. The admin is created while the server still requires neither."""

    def __init__(self, data_dir: Path, port: int | None = None) -> None:
        super().__init__(data_dir, port)
        self._secured: list[str] = []

    def secure(self, made: Certificates) -> None:
        """Create the admin, and restart with TLS and authentication."""
        with MongoClient[dict[str, Any]](self.url) as client:
            client.admin.command("createUser", ADMIN, pwd=PASSWORD, roles=["root"])
        key_file = self.data_dir / "key"
        key_file.write_text(secrets.token_hex(32))
        key_file.chmod(0o600)
        self._secured = [
            *("--keyFile", str(key_file)),
            *("--tlsMode", "requireTLS"),
            *("--tlsCertificateKeyFile", str(made.server)),
            *("--tlsCAFile", str(made.authority)),
            "--tlsAllowConnectionsWithoutCertificates",
        ]
        self.client_options = {
            "username": ADMIN,
            "password": PASSWORD,
            "tls": True,
            "tlsCAFile": str(made.authority),
        }
        self.restart()

    def _arguments(self, port: int, folder: Path) -> list[str]:
        return [*super()._arguments(port, folder), *self._secured]


@dataclass(frozen=True)
class Secured:
    """The servers. `redis_port` of the URLs is that of the proxy."""

    redis: RedisServer
    mongo: SecuredMongo
    certificates: Certificates

    @property
    def acl(self) -> Redis:
        """A client of the admin."""
        return Redis.from_url(self.redis.url, decode_responses=True)

    def admin(self) -> MongoClient[dict[str, Any]]:
        """A client of the admin."""
        return MongoClient(self.mongo.url, **self.mongo.client_options)

    def add_users(self, namespace: str) -> None:
        """The user of this namespace on both servers, with the least rights."""
        with self.acl as redis:
            redis.execute_command("ACL", "SETUSER", f"{USER}-{namespace}", "reset", "on", f">{PASSWORD}")
            self.allow(namespace, acl_rule(RedisKeys(namespace)))
        with self.admin() as client:
            role = {"role": "readWrite", "db": f"cronflow_{namespace}"}
            client.admin.command("createUser", f"{USER}-{namespace}", pwd=PASSWORD, roles=[role])

    def allow(self, namespace: str, rule: str) -> None:
        """Change the rights of the user of this namespace in Redis."""
        with self.acl as redis:
            redis.execute_command("ACL", "SETUSER", f"{USER}-{namespace}", *rule.split())

    def roles(self, namespace: str, *roles: str) -> None:
        """Replace the roles of the user of this namespace in MongoDB."""
        found = [{"role": role, "db": f"cronflow_{namespace}"} for role in roles]
        with self.admin() as client:
            client.admin.command("updateUser", f"{USER}-{namespace}", roles=found)

    def mongo_url(self, namespace: str, *, password: str = PASSWORD, authority: Path | None = None) -> str:
        file = authority or self.certificates.authority
        options = f"replicaSet=rs0&tls=true&tlsCAFile={file}"
        return f"mongodb://{USER}-{namespace}:{password.replace(' ', '%20')}@127.0.0.1:{self.mongo.port}/?{options}"

    def redis_url(self, port: int, namespace: str, *, password: str = PASSWORD, authority: Path | None = None) -> str:
        login = f"{USER}-{namespace}:{password.replace(' ', '%20')}"
        return f"rediss://{login}@localhost:{port}/0?ssl_ca_certs={authority or self.certificates.authority}"

    @asynccontextmanager
    async def tls(self) -> AsyncIterator[int]:
        """The port where Redis speaks TLS. The proxy needs the event loop: no test may block it."""
        async with TcpProxy("127.0.0.1", self.redis.port, self.certificates.context) as proxy:
            yield proxy.port


@contextmanager
def secured_servers(folder: Path) -> Iterator[Secured]:
    """Start both."""
    made = certificates(folder)
    mongo = SecuredMongo(folder)
    with started(RedisServer(folder, durable=False)) as redis, started(mongo):
        mongo.secure(made)
        yield Secured(redis, mongo, made)
