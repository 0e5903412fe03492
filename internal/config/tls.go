package config

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
)

// TLS is how the server shows who it is, and this host who it is. The files were read with the config.
type TLS struct {
	Roots      *x509.CertPool // who may vouch for the server; nil: the system's authorities
	ServerName string         // in the server's certificate; "": the host that is connected to
	Client     ClientCert     // zero: none is shown
}

// ClientCert is a certificate with its private key. Like a [Secret] it is printed as "[redacted]", in
// any form, or as nothing if there is none.
type ClientCert struct{ pair *tls.Certificate }

// Reveal is the certificate with its key, for the handshake; nil if there is none.
func (c ClientCert) Reveal() *tls.Certificate { return c.pair }

func (c ClientCert) hidden() Secret {
	if c.pair == nil {
		return Secret{}
	}
	return NewSecret(redacted)
}

// String is "[redacted]", or "" if there is none.
func (c ClientCert) String() string { return c.hidden().String() }

// GoString is String, for %#v.
func (c ClientCert) GoString() string { return c.String() }

// Format prints String whatever the verb.
func (c ClientCert) Format(f fmt.State, _ rune) { fmt.Fprint(f, c.String()) }

// LogValue is String.
func (c ClientCert) LogValue() slog.Value { return c.hidden().LogValue() }

// MarshalText is String; JSON, TOML and XML encoders use it.
func (c ClientCert) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// tlsSaid are the keys of redis.tls.
type tlsSaid struct{ caFile, certFile, keyFile, serverName string }

// finishTLS reads the files of redis.tls. Whether a connection is by TLS says the URL alone: a table
// that is left behind must not be taken for protection.
func (l *loader) finishTLS(at place, isTLS bool) {
	said := l.tls
	if !isTLS {
		for _, k := range []struct{ key, value string }{
			{"ca_file", said.caFile}, {"cert_file", said.certFile}, {"key_file", said.keyFile}, {"server_name", said.serverName},
		} {
			if k.value != "" {
				at.in(k.key).fault(problem{"is set, and redis.url is not for TLS", "write rediss://, with two s"})
			}
		}
		return
	}
	t := &TLS{ServerName: said.serverName}
	l.cfg.Redis.TLS = t
	if said.caFile != "" {
		if text, ok := l.readPEM(at.in("ca_file"), said.caFile); ok {
			t.Roots = x509.NewCertPool()
			if !t.Roots.AppendCertsFromPEM(text) {
				at.in("ca_file").faultf("%s holds no certificate in PEM", strconv.Quote(said.caFile))
			}
		}
	}
	switch {
	case said.certFile == "" && said.keyFile == "":
		return
	case said.keyFile == "":
		at.in("cert_file").fault(problem{"names a certificate without its key", "set key_file"})
		return
	case said.certFile == "":
		at.in("key_file").fault(problem{"names a key without its certificate", "set cert_file"})
		return
	}
	cert, fine := l.readPEM(at.in("cert_file"), said.certFile)
	key, ok := l.readPEM(at.in("key_file"), said.keyFile)
	if !fine || !ok {
		return
	}
	if info, err := l.files.stat(l.beside(at, said.keyFile)); err == nil && info.Mode().Perm()&0o004 != 0 {
		at.in("key_file").warn(problem{fmt.Sprintf("everybody can read %s (mode %04o)", strconv.Quote(said.keyFile), info.Mode().Perm()), "chmod 0600"})
	}
	pair, err := tls.X509KeyPair(cert, key)
	switch { // its own messages tell what it found in a file, which may be another than was meant
	case err == nil:
		t.Client = ClientCert{&pair}
	case !bytes.Contains(cert, []byte("-----BEGIN CERTIFICATE-----")):
		at.in("cert_file").faultf("%s holds no certificate in PEM", strconv.Quote(said.certFile))
	case strings.Contains(err.Error(), "does not match"):
		at.in("key_file").faultf("%s is not the key of the certificate in cert_file", strconv.Quote(said.keyFile))
	default:
		at.in("key_file").fault(problem{strconv.Quote(said.keyFile) + " holds no private key in PEM", "an encrypted one cannot be used"})
	}
}

// beside is the path of a file that the config names; see credential.
func (l *loader) beside(at place, path string) string {
	return l.credential(filepath.Dir(at.src.name), path)
}

func (l *loader) readPEM(at place, path string) ([]byte, bool) {
	path = l.beside(at, path)
	info, err := l.files.stat(path)
	if err == nil && !info.Mode().IsRegular() {
		at.faultf("%s is no file", strconv.Quote(path))
		return nil, false
	}
	text, _, err := l.files.read(path)
	if err != nil {
		at.fault(unreadable(path, err))
		return nil, false
	}
	return text, true
}
