package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certs are the files of two certificate authorities of one test: one that a server and its clients
// trust, with what it issued, and a stranger.
type Certs struct {
	CA, Cert, Key         string // the server's, for 127.0.0.1 and redis.test
	ClientCert, ClientKey string // a client's, by the same authority
	StrangerCA            string // has issued nothing of these
	ExpiredCert           string // the server's key and names, and its time is over
}

// Certificates makes them in a directory of the test's.
func Certificates(t testing.TB) Certs {
	t.Helper()
	dir := t.TempDir()
	ca, stranger := newAuthority(t, "rota test authority"), newAuthority(t, "somebody else's authority")
	c := Certs{
		CA: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, "server.crt"), Key: filepath.Join(dir, "server.key"),
		ClientCert: filepath.Join(dir, "client.crt"), ClientKey: filepath.Join(dir, "client.key"),
		StrangerCA: filepath.Join(dir, "stranger.crt"), ExpiredCert: filepath.Join(dir, "expired.crt"),
	}
	writePEM(t, c.CA, "CERTIFICATE", ca.cert.Raw)
	writePEM(t, c.StrangerCA, "CERTIFICATE", stranger.cert.Raw)
	key := newKey(t)
	writeKey(t, c.Key, key)
	now := time.Now()
	writePEM(t, c.Cert, "CERTIFICATE", ca.issue(t, "redis.test", x509.ExtKeyUsageServerAuth, key, now.Add(time.Hour)))
	writePEM(t, c.ExpiredCert, "CERTIFICATE", ca.issue(t, "redis.test", x509.ExtKeyUsageServerAuth, key, now.Add(-time.Hour)))
	clientKey := newKey(t)
	writeKey(t, c.ClientKey, clientKey)
	writePEM(t, c.ClientCert, "CERTIFICATE", ca.issue(t, "a client", x509.ExtKeyUsageClientAuth, clientKey, now.Add(time.Hour)))
	return c
}

type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatalf("redistest: certificates: %v", err)
	}
	if a.cert, err = x509.ParseCertificate(raw); err != nil {
		t.Fatalf("redistest: certificates: %v", err)
	}
	return a
}

func (a *authority) issue(t testing.TB, name string, use x509.ExtKeyUsage, key *ecdsa.PrivateKey, until time.Time) []byte {
	t.Helper()
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-12 * time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{use},
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatalf("redistest: certificates: %v", err)
	}
	return raw
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("redistest: certificates: %v", err)
	}
	return key
}

func writeKey(t testing.TB, file string, key *ecdsa.PrivateKey) {
	t.Helper()
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatalf("redistest: certificates: %v", err)
	}
	writePEM(t, file, "PRIVATE KEY", raw)
}

func writePEM(t testing.TB, file, kind string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600); err != nil {
		t.Fatalf("redistest: certificates: %v", err)
	}
}

// TLSServer is [Server] with a second port that speaks TLS, at the address it returns. Who connects
// there shows a certificate by the same authority, unless args say otherwise: "--tls-auth-clients",
// "no". The plain port stays, for the test's own commands and for clients that mistake it.
func TLSServer(t testing.TB, c Certs, args ...string) (s *ServerProc, addr string) {
	t.Helper()
	s = newServer(t, append([]string{
		"--tls-cert-file", c.Cert, "--tls-key-file", c.Key, "--tls-ca-cert-file", c.CA,
	}, args...))
	plain := s.argv
	s.argv = func() ([]string, error) {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		addr = address(port)
		line, err := plain()
		return append(line, "--tls-port", portText(port)), err
	}
	return s.launch(), addr
}
