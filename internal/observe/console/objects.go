package console

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// This file makes requests for objects and kinds the requests to the API that they stand for. The page can read objects and
// lists of them, and nothing that is served below them: a GET of a subresource may be more than reading (exec, proxy).

// maxWatch is for how many seconds a watch of the page may last: whoever has signed out is told nothing for longer than that.
const maxWatch = 240

// forms are the media types in which the page reads objects, by the parameter "as".
var forms = map[string]string{
	"":      "application/json",
	"table": "application/json;as=Table;g=meta.k8s.io;v=v1",
	"names": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
}

const kindsForm = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// standForKinds makes a request for "kinds?prefix=apis" the one for that discovery document.
func standForKinds(r *http.Request) bool {
	prefix := r.URL.Query().Get("prefix")
	if prefix != "api" && prefix != "apis" {
		return false
	}
	r.Header.Set("Accept", kindsForm)
	r.URL = &url.URL{Path: "/" + prefix}
	return true
}

var (
	groupPattern    = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`)
	resourcePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
)

// objectPath is the path of what a query names: an object, or a list. It has a fixed number of segments, so none of them can
// be a subresource.
func objectPath(q url.Values) (path string, one, ok bool) {
	group, version, resource, namespace, name := q.Get("group"), q.Get("version"), q.Get("resource"), q.Get("namespace"), q.Get("name")
	if !groupPattern.MatchString(group) || !resourcePattern.MatchString(version) || !resourcePattern.MatchString(resource) ||
		resource == "watch" || namespace != "" && !segment(namespace) || name != "" && !segment(name) {
		return "", false, false
	}
	path = "/api/" + version
	if group != "" {
		path = "/apis/" + group + "/" + version
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	path += "/" + resource
	if name != "" {
		path += "/" + name
	}
	return path, name != "", true
}

// segment says that a text is one segment of a path, also after it was encoded.
func segment(s string) bool {
	return s != "." && s != ".." && !strings.ContainsAny(s, "/%\\")
}

// standForObjects makes a request for "objects?resource=pods&version=v1&namespace=a" the list of these pods, and one that has
// a name the one for that object.
func standForObjects(r *http.Request) bool {
	q := r.URL.Query()
	path, one, ok := objectPath(q)
	form, known := forms[q.Get("as")]
	if !ok || !known || one && q.Get("as") != "" {
		return false
	}
	options := []string{"continue", "labelSelector", "fieldSelector", "visible"}
	watch := !one && q.Get("watch") == "true"
	switch {
	case one:
		options = []string{"at", "revisions"}
	case watch:
		options = []string{"labelSelector", "fieldSelector", "visible", "resourceVersion"}
	}
	out := url.Values{}
	if watch {
		out.Set("watch", "true")
		out.Set("timeoutSeconds", strconv.Itoa(maxWatch))
		out.Set("allowWatchBookmarks", "true")
	} else if !one || q.Get("revisions") != "" {
		out.Set("limit", limitOf(q))
	}
	for _, option := range options {
		if v := q.Get(option); v != "" {
			out.Set(option, v)
		}
	}
	r.Header.Set("Accept", form)
	r.URL = &url.URL{Path: path, RawQuery: out.Encode()}
	return true
}

// limitOf is how many items a page of a list has.
func limitOf(q url.Values) string {
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil || limit <= 0 {
		limit = usualLimit
	}
	return strconv.Itoa(min(limit, maxLimit))
}
