package builtin_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

// TestChooseErrors compares the errors with those of kube-apiserver v1.36.3.
func TestChooseErrors(t *testing.T) {
	for value, says := range map[string]string{
		"":                           "",
		"apps/v1":                    "",
		"extensions/v1beta1=true":    "",
		"foo/v1=true":                "unknown api groups foo/v1",
		"foo/v1=true,foo/v1/x=false": "unknown api groups foo/v1",
		"api/foo=true":               "unknown api groups api/foo",
		"api/v1":                     "",
		"api/v1=maybe":               `invalid value of /v1: maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax`,
		"v1/pods=true":               "",
		"api/v2":                     "unknown api groups api/v2",
		"api/legacy=true":            "",
		"api/legacy,api/all=false":   "invalid runtime-config with only api/all=false",
		"apps=false":                 "runtime-config invalid key apps",
		"api/all=false":              "invalid runtime-config with only api/all=false",
		"api/beta=maybe":             "invalid value api/beta=maybe",
		"apps/v1=maybe":              `invalid value of apps/v1: maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax`,
		"apps/v9=true":               "group version apps/v9 that has not been registered",
		"apps/v1/Deployments=false":  `invalid key apps/v1/Deployments: group/version/resource and resource is always lowercase plural, not "Deployments"`,
		"batch/v1/nope=false":        "",
		"api/all=false,apps/v1=true": "",
	} {
		_, err := builtin.Choose([]string{value})
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != says {
			t.Errorf("%q: %q, want %q", value, got, says)
		}
	}
}

func TestChosen(t *testing.T) {
	for value, served := range map[string]string{
		"":                                    "apps/v1/deployments batch/v1/cronjobs batch/v1/jobs",
		"api/all=true":                        "apps/v1/deployments batch/v1/cronjobs batch/v1/jobs networking.k8s.io/v1beta1/ipaddresses storage.k8s.io/v1alpha1/x",
		"api/beta=true":                       "apps/v1/deployments batch/v1/cronjobs batch/v1/jobs networking.k8s.io/v1beta1/ipaddresses",
		"api/all=true,api/ga=false":           "networking.k8s.io/v1beta1/ipaddresses storage.k8s.io/v1alpha1/x",
		"api/ga=false,batch/v1":               "batch/v1/cronjobs batch/v1/jobs",
		"batch/v1=false,batch/v1/jobs=true":   "apps/v1/deployments batch/v1/jobs",
		"batch/v1/cronjobs=false":             "apps/v1/deployments batch/v1/jobs",
		"api/all=false,apps/v1/deployments=1": "apps/v1/deployments",
	} {
		c, err := builtin.Choose(strings.Split(value, ","))
		if err != nil {
			t.Fatal(value, err)
		}
		var got []string
		for _, s := range []string{"apps/v1/deployments", "batch/v1/cronjobs", "batch/v1/jobs", "networking.k8s.io/v1beta1/ipaddresses", "storage.k8s.io/v1alpha1/x"} {
			p := strings.Split(s, "/")
			if c.Serves(schema.GroupVersionResource{Group: p[0], Version: p[1], Resource: p[2]}) {
				got = append(got, s)
			}
		}
		if strings.Join(got, " ") != served {
			t.Errorf("%s: %s, want %s", value, got, served)
		}
	}
}

// What a version of Kubernetes no longer has is served for one more release if that is asked for, and no longer.
func TestRemovedForOneRelease(t *testing.T) {
	served := func(minor uint, removed bool) map[string]bool {
		c, err := builtin.Choose([]string{"api/all=true"})
		if err != nil {
			t.Fatal(err)
		}
		c.Removed = removed
		out := map[string]bool{}
		for _, r := range builtin.Resources(builtin.Deps{Chosen: c, At: features.At{Emulated: version.MajorMinor(1, minor), Compatible: version.MajorMinor(1, minor-1)}}) {
			for _, v := range r.Versions {
				if gvr := v.WithResource(r.Plural); c.Serves(gvr) {
					out[gvr.String()] = true
				}
			}
		}
		return out
	}
	found := false
	for minor := uint(35); minor <= 37; minor++ {
		former, without, with := served(minor-1, false), served(minor, false), served(minor, true)
		for gvr := range with {
			if !without[gvr] {
				found = true
				if !former[gvr] {
					t.Errorf("1.%d: %s was not there before", minor, gvr)
				}
			}
		}
	}
	if !found {
		t.Error("nothing is served for one release more")
	}
}
