package discovery

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	kgzip "github.com/klauspost/compress/gzip"
	"github.com/munnerz/goautoneg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/cbor"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Serve serves a request for a discovery document. found is false if the path is not one, or belongs to another server;
// then nothing has been written. With an error nothing has been written either.
func (s *Set) Serve(w http.ResponseWriter, r *http.Request) (found bool, err error) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	switch {
	case path == "/api":
		return true, s.serveCore(w, r)
	case path == "/apis":
		return true, serve(w, r, s.apis, s.aggregatedGroups)
	case parts[0] == "api" && len(parts) == 2:
		return s.serveVersion(w, r, "", parts[1])
	case parts[0] == "apis" && len(parts) == 2:
		g := s.groups[parts[1]]
		if g == nil || g.name == "" {
			return false, nil
		}
		return true, serve(w, r, newDocument(g.document), nil)
	case parts[0] == "apis" && len(parts) == 3 && parts[1] != "":
		return s.serveVersion(w, r, parts[1], parts[2])
	}
	return false, nil
}

func (s *Set) serveCore(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return methodNotAllowed()
	}
	versions := newDocument(func() runtime.Object { return s.apiVersions(r) })
	if s.coreAggregated == nil {
		return serve(w, r, versions, nil)
	}
	return serve(w, r, versions, s.aggregatedCore)
}

func (s *Set) serveVersion(w http.ResponseWriter, r *http.Request, name, version string) (found bool, err error) {
	g := s.groups[name]
	if g == nil {
		return false, nil
	}
	gv := g.version(version)
	switch {
	case gv == nil && g.builtin():
		return true, engine.NoPath()
	case gv == nil || gv.Remote != nil:
		return false, nil
	case g.builtin() && r.Method != http.MethodGet:
		return true, methodNotAllowed()
	}
	d := newDocument(func() runtime.Object { return gv.resourceList() })
	d.noCBOR = !g.builtin()
	return true, serve(w, r, d, nil)
}

// encoding is the format of a response.
type encoding struct {
	mediaType  string
	aggregated bool
	alone      bool // of an aggregated document: without what other servers of the cluster serve
	pretty     bool
}

const (
	jsonType     = "application/json"
	yamlType     = "application/yaml"
	protobufType = "application/vnd.kubernetes.protobuf"
	cborType     = runtime.ContentTypeCBOR

	aggregatedParams = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
)

// offered are the media types of a document.
func (d *document) offered(r *http.Request) []string {
	names := []string{jsonType, yamlType, protobufType}
	if request.HasCBOR(r.Context()) && !d.noCBOR {
		names = append(names, cborType)
	}
	return names
}

// serve writes doc, or aggregated (nil: there is none) to clients that accept it.
func serve(w http.ResponseWriter, r *http.Request, doc *document, aggregated func(alone bool) *document) error {
	names := doc.offered(r)
	e, ok := negotiate(r, names, aggregated != nil)
	if !ok {
		return notAcceptable(names)
	}
	contentType := e.mediaType
	if e.aggregated {
		doc = aggregated(e.alone)
		contentType += aggregatedParams
	}
	if e.aggregated {
		tag := strconv.Quote(doc.hash())
		w.Header().Set("Etag", tag)
		w.Header().Set("Vary", "Accept")
		w.Header().Set("Cache-Control", "public")
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	body, err := doc.encode(e)
	if err != nil {
		return err
	}
	if a := request.AuditFrom(r.Context()); a.Wants(request.AuditRequestResponse) {
		a.Response(nil, func() ([]byte, error) { return doc.json(), nil })
	}
	w.Header().Set("Content-Type", contentType)
	return write(w, r, body)
}

func (d *document) encode(e encoding) ([]byte, error) {
	switch {
	case e.mediaType == yamlType:
		return yaml.JSONToYAML(d.json())
	case e.mediaType == protobufType:
		var b bytes.Buffer
		err := protobuf.NewSerializer(nil, nil).Encode(d.object(), &b)
		return b.Bytes(), err
	case e.mediaType == cborType:
		return cbor.FromJSON(d.json())
	case e.pretty:
		var b bytes.Buffer
		err := json.Indent(&b, bytes.TrimSuffix(d.json(), []byte("\n")), "", "  ")
		return b.Bytes(), err
	}
	return d.json(), nil
}

// compressFrom is the size from which bodies are compressed, if the client accepts that.
const compressFrom = 128 << 10

func write(w http.ResponseWriter, r *http.Request, body []byte) error {
	if len(body) < compressFrom || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body) // the client may have closed the connection
		return nil
	}
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Add("Vary", "Accept-Encoding")
	z := kgzip.NewWriter(w)
	_, _ = z.Write(body)
	_ = z.Close()
	return nil
}

// negotiate evaluates the Accept header by the offered media types; aggregated means that there is an aggregated form.
func negotiate(r *http.Request, offered []string, aggregated bool) (encoding, bool) {
	plain := encoding{mediaType: jsonType, pretty: wantsPretty(r)}
	accept := r.Header.Get("Accept")
	if accept == "" {
		return plain, true
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		for _, mediaType := range offered {
			t, sub, _ := strings.Cut(mediaType, "/")
			if clause.Type != "*" && (clause.Type != t || clause.SubType != "*" && clause.SubType != sub) {
				continue
			}
			e := plain
			e.mediaType = mediaType
			if e.accept(clause.Params, aggregated) {
				return e, true
			}
		}
	}
	return encoding{}, false
}

// accept evaluates the parameters of a media type; it returns false for an unsupported form.
func (e *encoding) accept(params map[string]string, aggregated bool) bool {
	if p, ok := params["pretty"]; ok {
		e.pretty = p == "1"
	}
	if s := params["stream"]; s != "" && s != "watch" || params["sv"] != "" {
		return false
	}
	if params["as"] == "" && params["g"] == "" && params["v"] == "" {
		return true
	}
	e.alone = params["profile"] == "nopeer"
	e.aggregated = params["as"] == "APIGroupDiscoveryList" && params["g"] == "apidiscovery.k8s.io" && params["v"] == "v2"
	return e.aggregated && aggregated
}

// wantsPretty reports whether to indent the response for a person: by the query, or by a user agent that people use by
// hand.
func wantsPretty(r *http.Request) bool {
	if p, ok := r.URL.Query()["pretty"]; ok {
		return len(p) > 0 && p[0] != "0" && !strings.EqualFold(p[0], "false")
	}
	agent := r.UserAgent()
	for _, prefix := range []string{"curl", "Wget", "Mozilla/5.0"} {
		if strings.HasPrefix(agent, prefix) {
			return true
		}
	}
	return false
}

func methodNotAllowed() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed,
		Details: &metav1.StatusDetails{}, Message: "the server does not allow this method on the requested resource",
	}}
}

func notAcceptable(offered []string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: " + strings.Join(offered, ", "),
	}}
}

// Paths writes the list of the server's paths, the document of "/".
func Paths(w http.ResponseWriter, r *http.Request, paths []string) error {
	body, err := json.MarshalIndent(metav1.RootPaths{Paths: paths}, "", "  ")
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", jsonType)
	return write(w, r, body)
}

// Paths lists the paths of the set's documents.
func (s *Set) Paths() []string {
	paths := []string{"/api", "/apis", "/apis/"}
	if core := s.groups[""]; core != nil {
		for _, v := range core.versions {
			paths = append(paths, "/api/"+v.Version)
		}
	}
	for _, g := range s.order {
		paths = append(paths, "/apis/"+g.name)
		for _, v := range g.versions {
			paths = append(paths, "/apis/"+v.String())
		}
	}
	return paths
}
