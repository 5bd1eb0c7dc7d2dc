package request

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Info describes a request, from its method, path and query. Authorization, audit, flow control and routing all use
// this one value, so they cannot disagree about the meaning of a path.
type Info struct {
	// IsResource is true for paths below /api/VERSION or /apis/GROUP/VERSION.
	IsResource bool
	Path       string
	// Verb is the API verb (get, list, watch, create, update, patch, delete, deletecollection); for other paths the
	// lower-case HTTP method.
	Verb        string
	Prefix      string // "api" or "apis"
	Group       string
	Version     string
	Namespace   string
	Resource    string
	Subresource string
	Name        string
	// Parts are the path segments, beginning with the resource.
	Parts []string
	// InNamespace is true if namespaces/NAMESPACE precedes the resource in the path. The paths of namespaces themselves
	// also have a Namespace, but are not in one.
	InNamespace bool
	// VerbInPath is true if the verb is a legacy prefix of the path (/api/v1/watch/pods), whatever the method.
	VerbInPath bool
	// Gaps is true if a relevant path segment is empty, as in /api/v1/namespaces//pods. Such a path is authorized as
	// parsed, and nothing is served there.
	Gaps bool
	// FieldSelector and LabelSelector are as sent, for list, watch and deletecollection.
	FieldSelector string
	LabelSelector string
	// Page is what filters have to know of a path that is no resource. The server sets it.
	Page Page
	// Visible is true for a list or watch of only what its user may see, Namespaces has the namespaces that one of all namespaces
	// names. The server sets them, where these extensions are on.
	Visible    bool
	Namespaces []string
	// Refusal is why the user may not make this request as it stands, though it is passed on: it asks for less than its path says.
	// Who serves it has to narrow it to what the user may have, or to answer with Refusal. The server sets it.
	Refusal error
	// CBOR is true if the server has CBOR among its media types. The server sets it.
	CBOR bool
}

// Page says how long the answer of a page, a path that is no resource, may take. The zero value: as long as other requests.
type Page struct {
	// LongRunning lets it last as long as the client wants.
	LongRunning bool
	// Stream is set besides for answers that a client has to keep reading: as that of a watch, the answer ends if the client
	// reads nothing for as long as another request may take.
	Stream bool
}

// namespaceSubresources are segments after a namespace's name that are subresources of the namespace, not resources in
// it.
var namespaceSubresources = map[string]bool{"status": true, "finalize": true}

// legacyVerbs are the legacy path prefixes that are verbs.
var legacyVerbs = map[string]bool{"proxy": true, "watch": true}

// NewInfo parses the Info of a request. A path that is not a valid resource path is a non-resource path; the only error
// is a legacy prefix (/api/v1/watch) with nothing after it.
func NewInfo(r *http.Request) (*Info, error) {
	i := &Info{Path: r.URL.Path, Verb: strings.ToLower(r.Method)}
	parts := split(r.URL.Path)
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		i.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		i.Group, i.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return i, nil
	}
	i.Prefix = strings.SplitN(strings.TrimLeft(r.URL.Path, "/"), "/", 2)[0]
	i.IsResource = true
	i.Verb = verbOf(r.Method)
	if legacyVerbs[parts[0]] {
		if len(parts) < 2 {
			return i, fmt.Errorf("no kind in path %q", r.URL.Path)
		}
		i.Verb, i.VerbInPath, parts = parts[0], true, parts[1:]
	}
	if parts[0] == "namespaces" && len(parts) > 1 {
		i.Namespace = parts[1]
		if len(parts) > 2 && !namespaceSubresources[parts[2]] {
			i.InNamespace, parts = true, parts[2:]
		}
	}
	i.Parts, i.Resource = parts, parts[0]
	if len(parts) > 1 {
		i.Name = parts[1]
	}
	if len(parts) > 2 && i.Verb != "proxy" {
		i.Subresource = parts[2]
	}
	i.Gaps = strings.HasPrefix(r.URL.Path, "//") || i.Version == "" || i.Prefix == "apis" && i.Group == "" ||
		i.InNamespace && i.Namespace == "" || slices.Contains(parts[:min(len(parts), 3)], "")
	i.readQuery(r)
	return i, nil
}

// readQuery sets the verb, name and selectors that depend on the query.
func (i *Info) readQuery(r *http.Request) {
	if i.VerbInPath {
		return // legacy watches are authorized without name and selectors
	}
	collection := i.Name == ""
	switch {
	case collection && i.Verb == "get":
		i.Verb = "list"
	case collection && i.Verb == "delete":
		i.Verb = "deletecollection"
	default:
		return
	}
	q := r.URL.Query()
	if i.Verb == "list" && isTrue(q["watch"]) {
		i.Verb = "watch"
	}
	if s := q.Get("fieldSelector"); s != "" {
		if sel, err := fields.ParseSelector(s); err == nil {
			i.FieldSelector = s
			// A list restricted to one name is authorized for that name.
			if name, ok := sel.RequiresExactMatch("metadata.name"); ok && collection &&
				i.Verb != "deletecollection" && len(content.IsPathSegmentName(name)) == 0 {
				i.Name = name
			}
		}
	}
	if s := q.Get("labelSelector"); s != "" {
		if _, err := labels.Parse(s); err == nil {
			i.LabelSelector = s
		}
	}
}

// Narrow reads the parameters with which a list or watch asks for less than its path says: visible, namespaces, or both. A value
// that is none is left to who serves the request.
func (i *Info) Narrow(r *http.Request, visible, namespaces bool) {
	if !i.IsResource || i.Subresource != "" || i.Verb != "list" && i.Verb != "watch" {
		return
	}
	// Most requests have neither, and their query need not be read.
	visible = visible && strings.Contains(r.URL.RawQuery, "visible")
	namespaces = namespaces && i.Namespace == "" && strings.Contains(r.URL.RawQuery, "namespaces")
	if !visible && !namespaces {
		return
	}
	q := r.URL.Query()
	if visible {
		i.Visible = q.Get("visible") == "true"
	}
	if namespaces && q.Get("namespaces") != "" {
		i.Namespaces = strings.Split(q.Get("namespaces"), ",")
	}
}

// Narrowed reports whether it asks for less than its path says.
func (i *Info) Narrowed() bool { return i.Visible || i.Namespaces != nil }

func verbOf(method string) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodGet, http.MethodHead:
		return "get"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return ""
}

// isTrue parses a boolean query parameter as API conversion does: present and neither "false" nor "0" is true.
func isTrue(values []string) bool {
	if len(values) == 0 {
		return false
	}
	switch strings.ToLower(values[0]) {
	case "false", "0":
		return false
	}
	return true
}

func split(path string) []string {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}
