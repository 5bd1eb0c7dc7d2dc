// Package frontproxy passes requests on to other API servers, extension servers and those of the same cluster, to which this
// server is a front proxy: it proves itself by a certificate, and says in headers who the user is.
//
// A request has been authenticated, and authorized, before it is passed on. What the client said of itself, its credentials
// and the headers of front proxies, goes no further.
package frontproxy
