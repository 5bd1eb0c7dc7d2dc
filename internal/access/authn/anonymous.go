package authn

import "slices"

// Anonymous says which requests without credentials are authenticated as system:anonymous. The zero value accepts none.
type Anonymous struct {
	// All accepts every request.
	All bool
	// Paths accepts requests for exactly these paths.
	Paths []string
}

// AnonymousHealth accepts only requests for health and version.
func AnonymousHealth() Anonymous {
	return Anonymous{Paths: []string{"/healthz", "/livez", "/readyz", "/version"}}
}

func (a Anonymous) allows(path string) bool {
	return a.All || slices.Contains(a.Paths, path)
}
