package sequences

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
)

// hooks is what a server's webhooks are: paths that say what is answered. It keeps the reviews that it has got.
type hooks struct {
	*httptest.Server
	ca string // base64

	mu      sync.Mutex
	reviews []any
}

func newHooks() *hooks {
	h := &hooks{}
	h.Server = httptest.NewTLSServer(h)
	h.ca = base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}))
	return h
}

// take returns the reviews since the last time, by paths: validating webhooks are called at the same time.
func (h *hooks) take() []any {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.reviews
	h.reviews = nil
	slices.SortStableFunc(out, func(a, b any) int {
		return strings.Compare(a.(map[string]any)["path"].(string), b.(map[string]any)["path"].(string))
	})
	return out
}

// firsts are the first reviews of each path.
func firsts(reviews []any) []any {
	return slices.CompactFunc(reviews, func(a, b any) bool { return a.(map[string]any)["path"] == b.(map[string]any)["path"] })
}

func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	review := map[string]any{}
	if err == nil {
		err = json.Unmarshal(data, &review)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, name, _ := strings.Cut(r.URL.Path, "/")
	request, _ := review["request"].(map[string]any)
	if probe, ok := strings.CutPrefix(name, "probe-"); ok {
		review = reviewed(request, map[string]any{"allowed": request["name"] != "probe-"+probe})
	} else {
		h.mu.Lock()
		h.reviews = append(h.reviews, map[string]any{"path": r.URL.Path, "query": r.URL.RawQuery, "review": review, "type": r.Header.Get("Content-Type")})
		h.mu.Unlock()
		behaviour, _, _ := strings.Cut(name, "/")
		review = behaviours[behaviour](request)
	}
	w.Header().Set("Content-Type", "application/json")
	switch garbage := review["garbage"]; garbage {
	case nil:
		_ = json.NewEncoder(w).Encode(review) // who asks may be gone
	case "500":
		http.Error(w, "broken", http.StatusInternalServerError)
	default:
		_, _ = io.WriteString(w, garbage.(string)) // who asks may be gone
	}
}

// reviewed is the answer to a review.
func reviewed(request, response map[string]any) map[string]any {
	if response["uid"] == nil {
		response["uid"] = request["uid"]
	}
	return map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
}

func denied(request, status map[string]any) map[string]any {
	return reviewed(request, map[string]any{"allowed": false, "status": status})
}

// patched allows with a JSON patch.
func patched(request map[string]any, ops ...map[string]any) map[string]any {
	patch := base64.StdEncoding.EncodeToString([]byte(text(ops)))
	return reviewed(request, map[string]any{"allowed": true, "patchType": "JSONPatch", "patch": patch})
}

func op(kind, path string, value any) map[string]any {
	return map[string]any{"op": kind, "path": path, "value": value}
}

// entry adds to a map of the metadata, which may not be there.
func entry(request map[string]any, of, key, value string) map[string]any {
	if present, _ := at(request, "/object/metadata/"+of).(map[string]any); present == nil {
		return op("add", "/metadata/"+of, map[string]any{key: value})
	}
	return op("add", "/metadata/"+of+"/"+key, value)
}

// behaviours are what webhooks do, by the first part of their paths.
var behaviours = map[string]func(request map[string]any) map[string]any{
	"allow": func(r map[string]any) map[string]any { return reviewed(r, map[string]any{"allowed": true}) },
	"warn": func(r map[string]any) map[string]any {
		return reviewed(r, map[string]any{"allowed": true, "warnings": []any{"careful", `with "quotes"`}, "auditAnnotations": map[string]any{"a": "b"}})
	},
	"deny":       func(r map[string]any) map[string]any { return reviewed(r, map[string]any{"allowed": false}) },
	"deny-words": func(r map[string]any) map[string]any { return denied(r, map[string]any{"message": "not today"}) },
	"deny-reason": func(r map[string]any) map[string]any {
		return denied(r, map[string]any{"reason": "Because", "code": 418})
	},
	"deny-invalid": func(r map[string]any) map[string]any {
		return denied(r, map[string]any{"message": "bad", "reason": "Invalid", "code": 422, "details": map[string]any{"causes": []any{map[string]any{"field": "a", "message": "b"}}}})
	},
	"deny-success": func(r map[string]any) map[string]any {
		return denied(r, map[string]any{"code": 200, "status": "Success"})
	},
	"deny-patch": func(r map[string]any) map[string]any {
		out := patched(r, op("add", "/metadata/labels", map[string]any{}))
		out["response"].(map[string]any)["allowed"] = false
		return out
	},
	"label": func(r map[string]any) map[string]any { return patched(r, entry(r, "labels", "hook", "yes")) },
	"count": func(r map[string]any) map[string]any {
		n, _ := at(r, "/object/metadata/annotations/count").(string)
		return patched(r, entry(r, "annotations", "count", n+"i"))
	},
	"data": func(r map[string]any) map[string]any {
		return patched(r, op("add", "/data", map[string]any{"hook": "aG9vaw=="}))
	},
	"spec":  func(r map[string]any) map[string]any { return patched(r, op("add", "/spec/replicas", 2)) },
	"wrong": func(r map[string]any) map[string]any { return patched(r, op("add", "/spec", "text")) },
	"unknown": func(r map[string]any) map[string]any {
		return patched(r, op("add", "/unknown", map[string]any{"a": 1}))
	},
	"finalizer": func(r map[string]any) map[string]any {
		return patched(r, op("add", "/metadata/finalizers", []any{"example.com/a"}))
	},
	// Objects of an apply, and of kinds that a PUT creates, keep their names: kube-apiserver stores a renamed one under the name of the URL, and kanzen
	// does not (docs/differences.md).
	"rename": func(r map[string]any) map[string]any {
		kind, _ := at(r, "/kind/kind").(string)
		if manager, _ := at(r, "/object/metadata/managedFields/0/operation").(string); manager == "Apply" || !slices.Contains([]string{"Pod", "ConfigMap", "Secret", "Deployment"}, kind) {
			return reviewed(r, map[string]any{"allowed": true})
		}
		return patched(r, op("replace", "/metadata/name", "other"))
	},
	"uid": func(r map[string]any) map[string]any { return patched(r, op("add", "/metadata/uid", "other")) },
	"status": func(r map[string]any) map[string]any {
		return patched(r, op("add", "/status", map[string]any{"phase": "Running", "replicas": 1}))
	},
	"managers": func(r map[string]any) map[string]any {
		return patched(r, op("add", "/metadata/managedFields", []any{}))
	},
	"kind":      func(r map[string]any) map[string]any { return patched(r, op("replace", "/kind", "Other")) },
	"fails":     func(r map[string]any) map[string]any { return patched(r, op("test", "/metadata/name", "nobody")) },
	"nowhere":   func(r map[string]any) map[string]any { return patched(r, op("remove", "/metadata/labels/none", nil)) },
	"no-change": func(r map[string]any) map[string]any { return patched(r) },
	"no-type": func(r map[string]any) map[string]any {
		out := patched(r, entry(r, "labels", "hook", "yes"))
		delete(out["response"].(map[string]any), "patchType")
		return out
	},
	"no-patch": func(r map[string]any) map[string]any {
		return reviewed(r, map[string]any{"allowed": true, "patchType": "JSONPatch"})
	},
	"other-type": func(r map[string]any) map[string]any {
		return reviewed(r, map[string]any{"allowed": true, "patchType": "Merge", "patch": "e30="})
	},
	"bad-patch": func(r map[string]any) map[string]any {
		return reviewed(r, map[string]any{"allowed": true, "patchType": "JSONPatch", "patch": "e30="})
	},
	"other-uid": func(r map[string]any) map[string]any {
		return reviewed(r, map[string]any{"allowed": true, "uid": "other"})
	},
	"old": func(r map[string]any) map[string]any {
		out := reviewed(r, map[string]any{"allowed": true})
		out["apiVersion"] = "admission.k8s.io/v1beta1"
		return out
	},
	"empty": func(map[string]any) map[string]any {
		return map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
	},
	"no-kind": func(r map[string]any) map[string]any {
		return map[string]any{"response": map[string]any{"uid": r["uid"], "allowed": true}}
	},
	"words": func(map[string]any) map[string]any { return map[string]any{"garbage": "no JSON"} },
	"array": func(map[string]any) map[string]any { return map[string]any{"garbage": "[]"} },
	"error": func(map[string]any) map[string]any { return map[string]any{"garbage": "500"} },
}
