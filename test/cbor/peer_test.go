package cbor

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
	"github.com/kanzen-io/kanzen/test/peer"
)

// kind is a kind of which objects are written and read.
type kind struct {
	path, typeMeta string
	fields         string // of an object
	changed        string // fields of an update
	unknown        string // fields that the kind has not
	wrong          string // fields of wrong types
}

const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"foos","kind":"Foo","singular":"foo","listKind":"FooList"},
"versions":[{"name":"v1","served":true,"storage":true,
"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}},
"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"replicas":{"type":"integer"},"f":{"type":"number"},"s":{"type":"string","default":"d"},"any":{"x-kubernetes-preserve-unknown-fields":true}}},
"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}`

const deploymentSpec = `"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}],` +
	`"resources":{"requests":{"cpu":"100m","memory":"1k"}},"livenessProbe":{"httpGet":{"port":"web"}}}]}}`

var kinds = []kind{
	{
		path: "/api/v1/namespaces/default/configmaps", typeMeta: `"kind":"ConfigMap","apiVersion":"v1"`,
		fields:  `"data":{"a":"b","c":"é\n"},"binaryData":{"x":"AP8="},"immutable":false`,
		changed: `"data":{"a":"c"}`, unknown: `"dota":{"a":"b"},"data":{}`, wrong: `"data":{"a":5}`,
	},
	{
		path: "/apis/apps/v1/namespaces/default/deployments", typeMeta: `"kind":"Deployment","apiVersion":"apps/v1"`,
		fields: `"spec":{"replicas":2,` + deploymentSpec + `}`, changed: `"spec":{"replicas":3,` + deploymentSpec + `}`,
		unknown: `"spec":{"replikas":2,` + deploymentSpec + `}`, wrong: `"spec":{"replicas":"2",` + deploymentSpec + `}`,
	},
	{
		path: "/apis/example.com/v1/namespaces/default/foos", typeMeta: `"kind":"Foo","apiVersion":"example.com/v1"`,
		fields:  `"spec":{"replicas":2,"f":1.5,"any":{"list":[1,2.5,"x",null,true,{"big":9007199254740993}]}},"status":{"x":1}`,
		changed: `"spec":{"replicas":3,"f":2,"s":""}`, unknown: `"spec":{"replikas":2}`, wrong: `"spec":{"s":5}`,
	},
}

// object is one of the kind.
func (k kind) object(name, fields string) string {
	return fmt.Sprintf(`{%s,"metadata":{"name":%q,"labels":{"l":"m"}},%s}`, k.typeMeta, name, fields)
}

var (
	// accepts are Accept headers.
	accepts = []string{"", jsonType, yamlType, cborType, "*/*", cborType + ", " + jsonType, jsonType + ", " + cborType,
		"application/json;q=0.5,application/cbor", "application/cbor;q=0.1, application/vnd.none", "application/vnd.kubernetes.protobuf, application/cbor;q=0.9",
		"application/cbor;pretty=1", "application/cbor;stream=watch", "application/cbor-seq", "application/cbor-seq, application/json", "text/html", "application/cbor;q=0"}
	// transforms are those of objects, tables those of lists too.
	transforms = []string{"application/cbor;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "application/cbor;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1"}
	lists      = []string{"application/cbor;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
	tables     = []string{"application/cbor;as=Table;g=meta.k8s.io;v=v1", "application/cbor;as=Table;g=meta.k8s.io;v=v1, application/json",
		"application/cbor;as=Table;g=meta.k8s.io;v=v1, application/cbor", "application/cbor;as=Table;g=meta.k8s.io;v=v3"}
	// sents are Content-Types of objects.
	sents = []string{"", jsonType, yamlType, cborType, "application/cbor; charset=utf-8", "application/cbor-seq", "text/plain"}
)

// asks crosses the verbs with the media types.
func (k kind) asks() []ask {
	var all []ask
	number := 0
	name := func() string { number++; return fmt.Sprintf("n%d", number) }
	body := func(fields string) string { return k.object(name(), fields) }
	for _, sent := range sents {
		for _, validation := range []string{"", "?fieldValidation=Strict", "?fieldValidation=Ignore&dryRun=All"} {
			for _, fields := range []string{k.fields, k.unknown, k.wrong} {
				for _, accept := range []string{"", cborType} {
					all = append(all, ask{"POST", k.path + validation, accept, sent, body(fields), nil})
				}
			}
		}
		for _, fields := range []string{k.changed, k.unknown, k.wrong, k.fields} {
			all = append(all, ask{"PUT", k.path + "/n1", cborType, sent, k.object("n1", fields), nil})
		}
		all = append(all,
			ask{"DELETE", k.path + "/" + fmt.Sprintf("n%d", number), cborType, sent, `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}`, nil},
			ask{"DELETE", k.path + "/n1", cborType, sent, `{"preconditions":{"uid":"other"}}`, nil},
			ask{"DELETE", k.path + "/n1", "", sent, `{"propagationPolicy":"None"}`, nil},
			ask{"DELETE", k.path + "/n1", "", sent, `{"gracePeriodSeconds":"x"}`, nil},
			ask{"DELETE", k.path + "?labelSelector=none", cborType, sent, `{"kind":"DeleteOptions","apiVersion":"v1"}`, nil})
	}
	for _, accept := range accepts {
		all = append(all, ask{"GET", k.path + "/n1", accept, "", "", nil}, ask{"GET", k.path + "/none", accept, "", "", nil},
			ask{"POST", k.path, accept, cborType, body(k.fields), nil},
			ask{"PUT", k.path + "/n1", accept, cborType, k.object("n1", k.changed), nil},
			ask{"DELETE", k.path + "/n1?dryRun=All", accept, "", "", nil},
			ask{"PATCH", k.path + "/n1", accept, "application/merge-patch+json", `{"metadata":{"labels":{"l":null}}}`, nil},
			ask{"GET", k.path + "/n1/status", accept, "", "", nil})
	}
	for _, accept := range append(append(accepts[:len(accepts):len(accepts)], lists...), tables...) {
		all = append(all, ask{"GET", k.path + "?fieldSelector=metadata.name=n1", accept, "", "", nil},
			ask{"GET", k.path + "?fieldSelector=metadata.name=none", accept, "", "", nil},
			ask{"DELETE", k.path + "?labelSelector=none", accept, "", "", nil})
	}
	for _, accept := range append(transforms[:len(transforms):len(transforms)], tables...) {
		all = append(all, ask{"GET", k.path + "/n1", accept, "", "", nil}, ask{"PUT", k.path + "/n1", accept, cborType, k.object("n1", k.changed), nil})
	}
	for _, accept := range append(append(accepts[:len(accepts):len(accepts)], transforms...), tables...) {
		all = append(all, ask{"GET", k.path + "?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name=n1", accept, "", "", nil})
	}
	all = append(all, ask{"GET", k.path + "?watch=1&resourceVersion=x", cborType, "", "", nil}, ask{"GET", k.path + "?limit=-1", cborType, "", "", nil})
	return append(all, k.applies()...)
}

// applies are server-side applies.
func (k kind) applies() []ask {
	var all []ask
	for _, sent := range []string{yamlApply, cborApply, cborApply + ";charset=utf-8", "application/apply-patch+json"} {
		for n, fields := range []string{k.fields, k.changed, k.unknown, k.wrong} {
			for _, query := range []string{"?fieldManager=m", "?fieldManager=m2", "?fieldManager=m2&force=true", "", "?fieldManager=m&fieldValidation=Strict"} {
				all = append(all, ask{"PATCH", k.path + "/a" + query, cborType, sent, k.object("a", fields), nil},
					ask{"PATCH", fmt.Sprintf("%s/a%d%d%s", k.path, n, len(all), query), "", sent, k.object(fmt.Sprintf("a%d%d", n, len(all)), fields), nil})
			}
		}
		all = append(all, ask{"PATCH", k.path + "/a?fieldManager=m", "", sent, `{}`, nil})
	}
	for _, raw := range [][]byte{{0xf6}, {0xa1, 0x41}, {0xa2, 0x41, 'a', 1, 0x41, 'a', 1}, {0x80}, {0x01}, []byte("{}"), {0xa1, 0x01, 0x02}} {
		all = append(all, ask{"PATCH", k.path + "/a?fieldManager=m", "", cborApply, "", raw})
	}
	return all
}

// brokens are bodies that are no objects.
func (k kind) broken() []ask {
	var all []ask
	for _, raw := range [][]byte{
		{}, {0xf6}, {0xa0}, {0x80}, {0xff}, {0xf7}, {0x01}, {0xd9, 0xd9, 0xf7}, {0xd9, 0xd9, 0xf7, 0xa0}, {0x7b, 0x7d}, []byte("{}"), {0x9f, 0xff}, {0xbf, 0xff},
		{0xa1, 0x01, 0x02}, {0xa2, 0x41, 'a', 1, 0x41, 'a', 2}, {0xa1, 0x44, 'k', 'i', 'n', 'd', 0x05}, {0xa1, 0x61, 0xff, 0x01}, {0xfb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0}, {0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		append([]byte{0xa1, 0x48, 'm', 'e', 't', 'a', 'd', 'a', 't', 'a'}, []byte(strings.Repeat("\x81", 20000))...),
	} {
		if raw = raw[:len(raw):len(raw)]; len(raw) == 0 {
			raw = []byte{}
		}
		all = append(all, ask{"POST", k.path, "", cborType, "", raw}, ask{"PUT", k.path + "/n1", cborType, cborType, "", raw}, ask{"DELETE", k.path + "/none", cborType, cborType, "", raw})
	}
	for _, typeMeta := range []string{`"kind":"Foo","apiVersion":"example.com/v2"`, `"kind":"Other","apiVersion":"example.com/v1"`, `"kind":"ConfigMap"`, `"kind":"Foo"`, `"apiVersion":"v1"`, `"x":1`,
		`"kind":5,"apiVersion":"v1"`, `"kind":"ConfigMap","apiVersion":"a/b/c"`, `"kind":"Foo","apiVersion":["x"]`} {
		all = append(all, ask{"POST", k.path + "?dryRun=All", "", cborType, `{` + typeMeta + `,"metadata":{"name":"t"},` + k.fields + `}`, nil})
	}
	for _, metadata := range []string{`5`, `{"name":5}`, `{"name":"x","labels":{"a":1}}`, `{"name":"x","creationTimestamp":"yesterday"}`, `{"name":"x","creationTimestamp":null}`, `{"name":"x","what":1}`,
		`{"name":"x","generation":1.5}`, `{"name":"x","managedFields":[{"manager":"m","operation":"Update","apiVersion":"apps/v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{}}}]}`} {
		metadata = strings.Replace(metadata, `"apiVersion":"apps/v1"`, k.typeMeta[strings.LastIndex(k.typeMeta, `"apiVersion"`):], 1)
		all = append(all, ask{"POST", k.path + "?dryRun=All", cborType, cborType, `{` + k.typeMeta + `,"metadata":` + metadata + `,` + k.fields + `}`, nil})
	}
	return all
}

// others are requests to subresources and pages.
func others() []ask {
	const v1 = "/api/v1/namespaces/default"
	all := []ask{
		{"POST", v1 + "/serviceaccounts/default/token?dryRun=All", cborType, cborType, `{"spec":{"expirationSeconds":5}}`, nil},
		{"POST", v1 + "/pods/none/eviction", cborType, cborType, `{"kind":"Eviction","apiVersion":"policy/v1","metadata":{"name":"none"}}`, nil},
		{"POST", v1 + "/pods/none/binding", cborType, cborType, `{"kind":"Binding","apiVersion":"v1","metadata":{"name":"none"},"target":{"kind":"Node","name":"n"}}`, nil},
		{"POST", v1 + "/pods/none/binding", "", cborType, `{"target":5}`, nil},
		{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", cborType, cborType, `{"spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}`, nil},
		{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "application/cbor;as=Table;g=meta.k8s.io;v=v1", cborType, `{"spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}`, nil},
		{"GET", "/api/v1/nix", cborType, "", "", nil}, {"GET", "/nix", cborType, "", "", nil},
		{"GET", "/api/v1/namespaces?timeout=invalid", cborType, "", "", nil}, {"GET", "/apis/apps", "application/cbor;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList", "", "", nil},
		{"GET", "/statusz", "application/cbor;v=v1beta1;g=config.k8s.io;as=Statusz", "", "", nil}, {"GET", "/statusz", cborType, "", "", nil},
		{"GET", "/flagz", "application/cbor;v=v1beta1;g=config.k8s.io;as=Flagz", "", "", nil}, {"GET", "/flagz", "application/none", "", "", nil},
	}
	for _, path := range []string{"/api", "/apis/apps", "/apis/apps/v1", "/apis/example.com", "/apis/example.com/v1"} {
		for _, accept := range []string{cborType, "application/cbor, application/json", "application/json, application/cbor", "application/cbor;pretty=1"} {
			all = append(all, ask{"GET", path, accept, "", "", nil})
		}
	}
	for _, path := range []string{"/apis/apps/v1/namespaces/default/deployments/n1/scale", "/apis/example.com/v1/namespaces/default/foos/n1/scale"} {
		for _, accept := range []string{cborType, "application/cbor;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "application/cbor;as=Table;g=meta.k8s.io;v=v1"} {
			all = append(all, ask{"GET", path, accept, "", "", nil},
				ask{"PUT", path, accept, cborType, `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"n1","namespace":"default"},"spec":{"replicas":1}}`, nil})
		}
		for _, body := range []string{`{"spec":{"replicas":"x"}}`, `{"spec":{"replikas":1}}`, `{"kind":"Foo","apiVersion":"v1"}`} {
			all = append(all, ask{"PUT", path + "?fieldValidation=Strict", "", cborType, body, nil})
		}
		if strings.Contains(path, "foos") {
			continue // to apply a custom resource's scale is an error there, in any media type
		}
		for _, sent := range []string{cborApply, yamlApply} {
			all = append(all, ask{"PATCH", path + "?fieldManager=s&force=true", cborType, sent, `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"n1","namespace":"default"},"spec":{"replicas":4}}`, nil},
				ask{"PATCH", path + "?fieldManager=s", cborType, sent, `{"spec":{"replicas":4}}`, nil})
		}
	}
	return all
}

// better says that only the code is compared: kube-apiserver's words are of its inner types or, for documents of discovery, of its router
// or in another media type than those of all other errors.
func (a ask) better(want answer) bool {
	st, _ := want.body.(map[string]any)
	words, _ := st["message"].(string)
	return strings.Contains(words, " is registered for ") || !strings.Contains(a.path, "/namespaces/") && want.code == http.StatusNotAcceptable
}

// TestBesidePeer asks kanzen and kube-apiserver the same and compares the answers: codes, media types, warnings, and what the bodies say.
func TestBesidePeer(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"on": {gate}, "off": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			there := newServer(t, peer.Start(t, flags...))
			k := kanzentest.Start(t, kanzentest.Flags(append([]string{"--allow-privileged=true"}, flags...)...), kanzentest.Controllers(), kanzentest.Install(kanzentest.YAML(definition)))
			here := newServer(t, k.Config())
			there.define(t)
			all := others()
			for _, k := range kinds {
				all = append(append(all, k.asks()...), k.broken()...)
			}
			all = append(all, others()...)
			differ := 0
			for _, a := range all {
				want, got := there.do(t, a), here.do(t, a)
				if a.better(want) {
					want.kind, want.body = got.kind, got.body
				}
				if want.String() != got.String() {
					differ++
					t.Errorf("%s\n got %s\nwant %s", a, got, want)
				}
			}
			t.Logf("%d of %d answers differ", differ, len(all))
		})
	}
}

// TestSockets: an event of a watch by websocket is a binary message of CBOR.
func TestSockets(t *testing.T) {
	t.Parallel()
	first := func(c *rest.Config) string {
		tls, err := rest.TLSConfigFor(c)
		must(t, err)
		dialer := websocket.Dialer{TLSClientConfig: tls}
		header := http.Header{"Accept": {cborType}, "Origin": {c.Host}}
		if c.BearerToken != "" {
			header.Set("Authorization", "Bearer "+c.BearerToken)
		}
		conn, resp, err := dialer.DialContext(t.Context(), strings.Replace(c.Host, "https", "wss", 1)+"/api/v1/namespaces?watch=1&fieldSelector=metadata.name=default", header)
		must(t, err)
		defer resp.Body.Close()
		defer conn.Close()
		kind, message, err := conn.ReadMessage()
		must(t, err)
		event := decoded(t, cborType, message).(map[string]any)
		delete(event["object"].(map[string]any)["metadata"].(map[string]any), "managedFields") // by whoever has made it
		return fmt.Sprint(kind, same(event))
	}
	want := peer.NewRecorded[string](t, "sockets").Answer("kube-apiserver", func() string { return first(peer.Start(t, gate)) })
	if got := first(kanzentest.Start(t, kanzentest.Flags(gate), kanzentest.Listen(), kanzentest.Controllers()).SocketConfig()); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
