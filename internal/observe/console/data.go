package console

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// Bounds of a page of a list.
const (
	usualLimit = 200
	maxLimit   = 500
)

// readable are the resources of the flight recorder that the page reads.
func readable(resource string) bool {
	switch resource {
	case "requests", "watches", "webhookstats", "deprecateduses", "trafficstats", "timeseries", "views", "controllers", "datastores", "prioritylevels", "definitions", "findings",
		"planestats", "planeservers":
		return true
	}
	return false
}

// stand makes a request for data the request to the API that it stands for: "requests?limit=10" the list of requests,
// "requests/r1" one of them, "history?resource=pods&name=a" the creation of an ObjectHistory, "space?since=1h" a look at the space of
// the database, "objects?..." and "kinds?..." what standForObjects and standForKinds say. It returns false if there is no such data. The request's header is its own.
// space is the path of the server's space; "": it tells of none.
func stand(r *http.Request, path, space string) bool {
	if r.Method != http.MethodGet {
		return false
	}
	q, api := r.URL.Query(), "/apis/"+v1alpha1.GroupVersion().String()+"/"
	r.Body, r.ContentLength = http.NoBody, 0
	r.Header.Set("Accept", "application/json")
	for _, name := range []string{"Upgrade", "Connection", "Content-Type", "Content-Length", "Transfer-Encoding"} {
		r.Header.Del(name)
	}
	switch path {
	case "objects":
		return standForObjects(r)
	case "kinds":
		return standForKinds(r)
	case "space":
		if space == "" {
			return false
		}
		r.Method, r.URL = http.MethodPost, &url.URL{Path: space, RawQuery: url.Values{"recent": {"1m"}, "since": {spanOf(q)}}.Encode()}
		return true
	case "history":
		body, err := json.Marshal(v1alpha1.ObjectHistory{Spec: v1alpha1.ObjectReference{
			Group: q.Get("group"), Resource: q.Get("resource"), Namespace: q.Get("namespace"), Name: q.Get("name")}})
		if err != nil {
			return false
		}
		r.Method, r.URL = http.MethodPost, &url.URL{Path: api + "objecthistories"}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", "application/json")
		return true
	}
	resource, name, one := strings.Cut(path, "/")
	if !readable(resource) || one && (name == "" || name == "." || name == ".." || strings.Contains(name, "/")) {
		return false
	}
	u := &url.URL{Path: api + path}
	if !one {
		page := url.Values{"limit": {limitOf(q)}}
		for _, option := range []string{"continue", "fieldSelector"} {
			if v := q.Get(option); v != "" {
				page.Set(option, v)
			}
		}
		u.RawQuery = page.Encode()
	}
	r.URL = u
	return true
}

// spanOf is the time with which the space of the database is compared: an hour ago, or a day.
func spanOf(q url.Values) string {
	if q.Get("since") == "24h" {
		return "24h"
	}
	return "1h"
}
