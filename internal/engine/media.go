package engine

import (
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/request"
)

// media is an encoding of objects.
type media int

const (
	mediaJSON media = iota
	mediaYAML
	mediaProtobuf
	mediaCBOR
)

// Names of the encodings, as in Accept and Content-Type.
var mediaNames = [...]string{
	mediaJSON:     "application/json",
	mediaYAML:     "application/yaml",
	mediaProtobuf: "application/vnd.kubernetes.protobuf",
	mediaCBOR:     runtime.ContentTypeCBOR,
}

// offered are the names of the encodings that the server has: CBOR is behind a feature gate.
func offered(req *http.Request) []string {
	if request.HasCBOR(req.Context()) {
		return mediaNames[:]
	}
	return mediaNames[:mediaCBOR]
}

// streamName is the name of the encoding of a watch.
func (m media) streamName() string {
	if m == mediaCBOR {
		return runtime.ContentTypeCBORSequence
	}
	return mediaNames[m] + ";stream=watch"
}

// shape is the form into which an object is brought before it is encoded.
type shape int

const (
	shapeObject  shape = iota // the object itself
	shapePartial              // PartialObjectMetadata
	shapeTable                // Table
)

// output is the form of an answer, negotiated with the client.
type output struct {
	media  media
	shape  shape
	pretty bool
	// dropManaged leaves metadata.managedFields out (KEP-5958's drop parameter).
	dropManaged bool
	// beta says that the kinds of meta.k8s.io are of v1beta1, which has the same fields as v1.
	beta bool
}

// metaKind is a kind of meta.k8s.io in the version that the client asks for.
func (o output) metaKind(kind string) schema.GroupVersionKind {
	if o.beta {
		return metav1beta1.SchemeGroupVersion.WithKind(kind)
	}
	return metav1.SchemeGroupVersion.WithKind(kind)
}

// contentType of a whole answer, or of a watch stream.
func (o output) contentType(stream bool) string {
	if stream && o.media != mediaJSON {
		return o.media.streamName()
	}
	return mediaNames[o.media]
}

// restrict says what an endpoint can produce.
type restrict struct {
	protobuf bool // the kind has a protobuf encoding
	routed   bool // kube-apiserver's router knows its media types
	list     bool // it can be watched too
	table    bool
	partial  string // the kind of metadata-only answers; "" if there are none
	stream   bool
}

// negotiate picks the output for a request, or an error of code 406.
func negotiate(req *http.Request, can restrict) (output, error) {
	out := output{pretty: pretty(req)}
	header := req.Header.Get("Accept")
	if header == "" {
		return out, nil
	}
	names := offered(req)
	for _, clause := range goautoneg.ParseAccept(header) {
		for m, name := range names {
			m := media(m)
			if !can.encode(m, clause.Params) {
				continue
			}
			t, sub, _ := strings.Cut(name, "/")
			if !(clause.Type == t && (clause.SubType == sub || clause.SubType == "*") || clause.Type == "*" && clause.SubType == "*") {
				continue
			}
			o := out
			o.media = m
			if o.accept(clause.Params, can) {
				return o, nil
			}
		}
	}
	return out, can.refuse(req, header, names)
}

// encode says whether the endpoint can produce media type m with these
// parameters. Kinds of meta.k8s.io have a protobuf encoding even where the
// object itself has none; a stream cannot be YAML.
func (can restrict) encode(m media, params map[string]string) bool {
	switch m {
	case mediaProtobuf:
		return can.protobuf || params["g"] == metav1.GroupName && params["as"] != ""
	case mediaYAML:
		return !can.stream
	}
	return true
}

// accept reads the parameters of a media type; it returns false if the endpoint
// cannot produce it.
func (o *output) accept(params map[string]string, can restrict) bool {
	var as, group, version string
	for k, v := range params {
		switch k {
		case "as":
			as = v
		case "g":
			group = v
		case "v":
			version = v
		case "stream":
			if v != "" && v != "watch" {
				return false
			}
		case "sv":
			if v != "" {
				return false
			}
		case "pretty":
			o.pretty = v == "1"
		case "drop":
			o.dropManaged = v == "metadata.managedFields"
		}
	}
	if as == "" && group == "" && version == "" {
		return true
	}
	if group != metav1.GroupName || version != "v1" && version != "v1beta1" {
		return false
	}
	o.beta = version == "v1beta1"
	switch as {
	case "Table":
		o.shape = shapeTable
		return can.table && (o.media == mediaJSON || o.media == mediaYAML)
	case can.partial:
		o.shape = shapePartial
		return as != ""
	}
	return false
}

// refuse answers a request that wants none of the media types that an endpoint has, in kube-apiserver's order: its router, which knows the
// names of built-in kinds' types, then what no answer could be, then what no stream could be.
func (can restrict) refuse(req *http.Request, header string, names []string) error {
	var streams []string
	for m := range names {
		if m := media(m); m != mediaYAML {
			streams = append(streams, m.streamName())
		}
	}
	if can.routed {
		routes := slices.Clone(names)
		if can.list {
			routes = append(routes, streams...)
		}
		if !namesMedia(header, routes) {
			return &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable, Details: &metav1.StatusDetails{},
				Message: "406: Not Acceptable\n\nAvailable representations: " + strings.Join(routes, ", "),
			}}
		}
	}
	if can.stream {
		can.stream = false
		if _, err := negotiate(req, can); err != nil {
			return err
		}
		names = streams
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusNotAcceptable,
		Reason:  metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: " + strings.Join(names, ", "),
	}}
}

// unroutable reports whether kube-apiserver's router refuses a request for a built-in kind by its media types, before any code that
// knows the kind: it accepts none that the API has, or it is a patch of an unknown type.
func (c *call) unroutable() bool {
	if !c.typed {
		return false
	}
	if accept := c.req.Header.Get("Accept"); accept != "" && !namesMedia(accept, offered(c.req)) {
		return true
	}
	_, err := c.patchKind()
	return c.info.Verb == "patch" && err != nil
}

// namesMedia reports whether an Accept header has one of the names, with whatever parameters.
func namesMedia(header string, names []string) bool {
	for clause := range strings.SplitSeq(header, ",") {
		name, _, _ := strings.Cut(clause, ";")
		if name = strings.TrimSpace(name); name == "*/*" || slices.Contains(names, name) {
			return true
		}
	}
	return false
}

func unsupportedMedia(names []string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusUnsupportedMediaType,
		Reason:  metav1.StatusReasonUnsupportedMediaType,
		Message: fmt.Sprintf("the body of the request was in an unknown format - accepted media types include: %s", strings.Join(names, ", ")),
	}}
}

// inputMedia reads the Content-Type of a body, or an error of code 415.
func inputMedia(req *http.Request, protobuf bool) (media, error) {
	header := req.Header.Get("Content-Type")
	if header == "" {
		return mediaJSON, nil
	}
	names := offered(req)
	if t, _, err := mime.ParseMediaType(header); err == nil {
		for m, name := range names {
			if t == name && (media(m) != mediaProtobuf || protobuf) {
				return media(m), nil
			}
		}
	}
	return 0, unsupportedMedia(names)
}

// pretty says that the answer is to be human-readable.
func pretty(req *http.Request) bool {
	if strings.Contains(req.URL.RawQuery, "pretty") {
		if p := req.URL.Query().Get("pretty"); p != "" {
			yes, _ := strconv.ParseBool(p)
			return yes
		}
	}
	for _, human := range []string{"curl", "Wget", "Mozilla/5.0"} {
		if strings.HasPrefix(req.UserAgent(), human) {
			return true
		}
	}
	return false
}
