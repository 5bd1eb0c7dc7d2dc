package config

import (
	"reflect"
	"regexp"
	"testing"
)

// What names a file, a socket or a server is of the process or of one control plane's trust. Anything else of a Plane is had by all planes
// below it, which may be somebody else's.
func TestHosted(t *testing.T) {
	t.Parallel()
	forAll := map[string]bool{"EncryptionConfigFile": true, "AllowMetricLabelsManifest": true}
	place := regexp.MustCompile("(File|Files|Manifest|Path|Dir|Endpoint|URI|URL|Servers|Key)$")
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Plane]()) {
		if len(f.Index) == 1 && place.MatchString(f.Name) && !forAll[f.Name] {
			t.Errorf("%s is outside of Trust, so all planes have it", f.Name)
		}
	}
	var c Plane
	fill(reflect.ValueOf(&c.Trust).Elem())
	h := c.Hosted("/x")
	want := Standalone().Trust
	want.BootstrapTokenAuth = true
	if !reflect.DeepEqual(h.Trust, want) || h.KeyPrefix() != "/x/" || !h.OwnFrontProxy() {
		t.Errorf("%+v", h.Trust)
	}
	if f := c.Forked(nil); !reflect.DeepEqual(f.Trust, c.Trust) {
		t.Errorf("the users of a fork: %+v", f.Trust)
	}
}

// fill gives each field of a struct a value that it does not have by default.
func fill(v reflect.Value) {
	for n := range v.NumField() {
		switch f := v.Field(n); f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int64:
			f.SetInt(1)
		case reflect.String:
			f.SetString("other")
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{"other"}))
		case reflect.Map:
			f.Set(reflect.ValueOf(map[string]string{"other": "other"}))
		default:
			panic(f.Kind())
		}
	}
}

// The settings that a process has and its other control planes have not stand for nothing.
func TestWithoutProcess(t *testing.T) {
	t.Parallel()
	var none Process
	if got := none.PeerAddress(6443) + none.RecorderDir(); got != "" || none.Enabled("WatchList") {
		t.Error(got)
	}
}

// What Validate returns stays as it is, whatever becomes of the Config.
func TestValidated(t *testing.T) {
	t.Parallel()
	c := Standalone()
	c.DataDir = t.TempDir()
	before := c
	root, plane, err := c.Validate()
	if err != nil {
		t.Fatal(err)
	}
	if c.given = nil; !reflect.DeepEqual(before, c) {
		t.Error("Validate changes the Config")
	}
	c.DataDir, c.EtcdPrefix = "elsewhere", "/elsewhere"
	if root.DataDir == c.DataDir || plane.EtcdPrefix == c.EtcdPrefix || !plane.OwnFrontProxy() || root.ServiceAddress().String() != "10.0.0.1" {
		t.Errorf("%+v, %+v", root, plane)
	}
}
