// Package authn proves authentication with programs nobody here wrote: an
// OpenID Connect provider, an independent JWT library, client-go's in-cluster
// configuration; and webhooks over TLS.
package authn
