// Package discovery serves the discovery documents, which list groups, versions and resources: /api, /apis, /apis/GROUP
// and /apis/GROUP/VERSION, the aggregated documents that contain everything, and the list of paths at /.
//
// A Set is the immutable list of all group-versions, whatever serves them, and is replaced whole when one is added or
// removed. Documents that list everything are generated on first request and then kept as bytes.
package discovery
