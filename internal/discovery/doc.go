// Package discovery tells clients which groups, versions and resources there
// are: the documents of /api, /apis, /apis/GROUP and /apis/GROUP/VERSION, the
// aggregated ones that say all of it at once, and the list of paths at /.
//
// A Set is made of group-versions, whoever serves them, and never changes; it
// is replaced whole when one comes or goes. The lists of everything are made on
// their first request and then kept as bytes.
package discovery
