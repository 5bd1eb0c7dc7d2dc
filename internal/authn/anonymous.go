package authn

import "slices"

// Anonymous says which requests without credentials are let in as
// system:anonymous. The zero value lets in none.
type Anonymous struct {
	// All lets in every request.
	All bool
	// Paths lets in requests for exactly these.
	Paths []string
}

// AnonymousHealth lets in only who asks for health and version.
func AnonymousHealth() Anonymous {
	return Anonymous{Paths: []string{"/healthz", "/livez", "/readyz", "/version"}}
}

func (a Anonymous) allows(path string) bool {
	return a.All || slices.Contains(a.Paths, path)
}
