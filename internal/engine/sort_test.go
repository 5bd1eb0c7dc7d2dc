package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A sorted list is read in pages of one revision, whatever is written meanwhile, with and without selectors.
func TestSortedLists(t *testing.T) {
	x := newExtended(t)
	var all []string
	for n := range 12 {
		ns, name := fmt.Sprint("ns", n%3), fmt.Sprintf("d%02d", (n*7)%12)
		x.expect("POST /apis/apps/v1/namespaces/"+ns+"/deployments", deployment(name, fmt.Sprintf(`,"spec":{"paused":%v}`, n%2 == 0)), "201")
		all = append(all, name)
	}
	slices.Sort(all)
	pages := func(path string) (got []string) {
		t.Helper()
		next := ""
		for n := 0; n == 0 || next != ""; n++ {
			page := path
			if next != "" {
				page += "&continue=" + next
			}
			doc := x.expect("GET "+page, "", "200")
			got = append(got, namesIn(doc)...)
			if next = at(doc, "metadata.continue"); next != "" {
				x.do("POST /apis/apps/v1/namespaces/ns0/deployments", deployment(fmt.Sprintf("d%02d-%d", n, len(path)), ``))
			}
		}
		return got
	}
	down := slices.Clone(all)
	slices.Reverse(down)
	const everywhere = "/apis/apps/v1/deployments"
	x.want(pages(everywhere+"?sort=metadata.name"), all...)
	x.want(pages(everywhere+"?sort=-metadata.name&limit=5"), down...)
	for _, d := range namesIn(x.expect("GET "+everywhere+"?sort=metadata.name", "", "200")) {
		if len(d) > 3 { // made between pages
			for n := range 3 {
				x.do(fmt.Sprintf("DELETE /apis/apps/v1/namespaces/ns%d/deployments/%s", n, d), "")
			}
		}
	}
	x.want(pages(everywhere+"?namespaces=ns1,ns2&sort=-metadata.name&limit=3"), "d11", "d10", "d08", "d07", "d05", "d04", "d02", "d01")
	x.want(pages("/apis/apps/v1/namespaces/ns1/deployments?sort=-metadata.creationTimestamp&limit=3"), "d10", "d07", "d04", "d01")
	for query, want := range map[string]string{
		"sort=metadata.uid":                                        "sort: deployments cannot be sorted by",
		"sort=metadata.name&continue=abcdef":                       "invalid continue token",
		"sort=metadata.name&continue=" + encodeContinue("ns/a", 5): "invalid continue token: it is of another order",
	} {
		if got := at(x.expect("GET "+everywhere+"?"+query, "", "400"), "message"); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", query, got)
		}
	}
}
