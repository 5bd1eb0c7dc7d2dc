package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"
)

// Shared are the files that all servers of a cluster have in common, by name: the authorities and the key that signs
// service account tokens.
type Shared map[string][]byte

// sharedAuthorities are the authorities of the set, by the name of their files.
var sharedAuthorities = []struct{ file, name string }{{"ca", authorityName}, {"front-proxy-ca", frontProxyAuthorityName}}

const serviceAccountKeyFile = "sa.key"

// names returns the names of the files: keys before the certificates for them.
func (Shared) names() []string {
	names := []string{serviceAccountKeyFile}
	for _, a := range sharedAuthorities {
		names = append(names, a.file+".key", a.file+".crt")
	}
	return names
}

// SharedNames returns the names of the files of a set.
func SharedNames() []string { return Shared(nil).names() }

// ReadShared reads those files of the set that exist in a directory.
func ReadShared(dir string) (Shared, error) {
	s := Shared{}
	for _, name := range s.names() {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		s[name] = b
	}
	return s, nil
}

// Equal reports whether two sets have the same content.
func (s Shared) Equal(other Shared) bool { return maps.EqualFunc(s, other, bytes.Equal) }

// Write writes the set into a directory.
func (s Shared) Write(dir string) error {
	if err := privateDir(dir); err != nil {
		return err
	}
	for _, name := range s.names() {
		if err := writeIfChanged(filepath.Join(dir, name), s[name], fileMode); err != nil {
			return err
		}
	}
	return nil
}

// MergeShared returns the set of a cluster (empty: there is none yet) with the files that a server has. It makes what is
// in neither. Of two certificates for one key it takes the one that lasts longer: a server may have renewed it. It fails if
// the server has another key than the cluster.
func MergeShared(cluster, local Shared, now time.Time) (Shared, error) {
	merged := Shared{}
	if _, err := mergeKey(merged, serviceAccountKeyFile, cluster, local); err != nil {
		return nil, err
	}
	for _, a := range sharedAuthorities {
		key, err := mergeKey(merged, a.file+".key", cluster, local)
		if err != nil {
			return nil, err
		}
		cert, err := mergeCert(a.file+".crt", key, cluster, local)
		if err != nil {
			return nil, err
		}
		if cert == nil {
			made, err := selfSign(a.name, key, now, authorityLife)
			if err != nil {
				return nil, err
			}
			cert = encodeCerts(made.Raw)
		}
		merged[a.file+".crt"] = cert
	}
	return merged, nil
}

// mergeKey puts the key of a name into merged.
func mergeKey(merged Shared, name string, cluster, local Shared) (crypto.Signer, error) {
	var keys [2]crypto.Signer
	for n, from := range []Shared{cluster, local} {
		if from[name] == nil {
			continue
		}
		key, err := ParsePrivateKey(from[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		keys[n] = key
	}
	switch ours, theirs := keys[1], keys[0]; {
	case theirs != nil && ours != nil && !samePublic(theirs.Public(), ours.Public()):
		return nil, fmt.Errorf("%s differs", name)
	case theirs != nil:
		merged[name] = cluster[name]
		return theirs, nil
	case len(cluster) > 0:
		return nil, fmt.Errorf("%s is missing in the cluster's set", name)
	case ours != nil:
		merged[name] = local[name]
		return ours, nil
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	merged[name], err = encodeKey(key)
	return key, err
}

// mergeCert returns the certificate of a name; nil: there is none.
func mergeCert(name string, key crypto.Signer, cluster, local Shared) ([]byte, error) {
	var best []byte
	var until time.Time
	for n, from := range []Shared{cluster, local} {
		block, _ := pem.Decode(from[name])
		if block == nil {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if !keyMatches(cert, key) {
			if n == 1 && len(cluster) > 0 {
				return nil, fmt.Errorf("%s differs", name)
			}
			continue // it is for a key that is lost
		}
		if best == nil || cert.NotAfter.After(until) {
			best, until = from[name], cert.NotAfter
		}
	}
	return best, nil
}

func samePublic(a, b crypto.PublicKey) bool {
	public, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(b)
}

// NewShared makes a set. Its authorities have the name of whom they are for in theirs.
func NewShared(of string, now time.Time) (Shared, error) {
	made := Shared{}
	for _, a := range sharedAuthorities {
		authority, err := NewAuthority(a.name+" of "+of, now)
		if err != nil {
			return nil, err
		}
		p, err := authority.Pair()
		if err != nil {
			return nil, err
		}
		made[a.file+".crt"], made[a.file+".key"] = p.Cert, p.Key
	}
	var err error
	made[serviceAccountKeyFile], err = NewSigningKey()
	return made, err
}

// ClientAuthority is the authority of clients' certificates.
func (s Shared) ClientAuthority() Pair { return Pair{Cert: s["ca.crt"], Key: s["ca.key"]} }

// FrontProxyAuthority is the authority of the certificates of front proxies.
func (s Shared) FrontProxyAuthority() Pair {
	return Pair{Cert: s["front-proxy-ca.crt"], Key: s["front-proxy-ca.key"]}
}

// ServiceAccountKey is the key that signs the tokens of service accounts.
func (s Shared) ServiceAccountKey() []byte { return s[serviceAccountKeyFile] }
