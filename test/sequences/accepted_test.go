package sequences

import (
	"regexp"
	"slices"
)

// accepted are differences that are meant to be, with the reasons.
var accepted = []struct {
	about, difference, reason string
}{
	{`"ignoreStoreReadErrorWithClusterBreakingPotential\\?":true`, `^code: kanzen (409|404).*kube-apiserver 500.*no unsafe deleter provided`,
		"kanzen can remove unreadable objects of all kinds"},
	{``, `^\.message: kanzen "((the object provided is unrecognized [^:]*: )?Object 'Kind' is missing|converting )`, "kube-apiserver shows the document, or names its types, in Go's words"},
	{`/persistentvolumeclaims`, `\.metadata\.resourceVersion: `, "kube-apiserver stores a new claim without a phase, and once more with it, whatever is written"},
	{`/persistentvolumeclaims.*watch=1`, `^events: `, "the same, in events"},
	{`/events.*watch=1`, `^events: `, "the managers of an event that kube-apiserver forgets are a write"},
	{`/events`, `\.metadata\.(managedFields|resourceVersion)`, "kube-apiserver forgets the managers of an event when it is written in the other version"},
	{`"PATCH".*/scale.*apply-patch`, `^code: kanzen (200|409).*kube-apiserver 500.*invalid group/version: autoscaling/v1`,
		"kube-apiserver cannot apply the scale of a custom resource that nobody has applied"},
	{``, `^code: kanzen 4.*kube-apiserver 0 "it panics"`, "kube-apiserver panics"},
	{`/resourceslices`, `\.metadata\.(generation|resourceVersion|managedFields)`, "kube-apiserver counts a write of fields whose feature is off, before it drops them"},
	{`/widgets`, `\.metadata\.managedFields.*v1beta1`, "kube-apiserver records nothing of a write with a field that another manager's version lacks"},
	{`/(things|gizmos)`, `\.metadata\.managedFields.*test/v2.*kube-apiserver nothing`, "the same"},
	{`/(widgets|things|gizmos)/.*apply-patch`, `^code: kanzen (200|409).*kube-apiserver 500 .*failed to convert new object: `, "the same, of an apply"},
	{`labelSelector=.*limit=1`, `\.metadata\.continue: kanzen nothing`, "kube-apiserver lets clients go on although nothing that is left matches"},
	{`/resourcequotas`, `\.metadata\.managedFields`, "kube-apiserver's charges to a quota are writes of its status, with a manager"},
	{`dryRun=All`, `\.metadata\.selfLink: kanzen nothing`, "a dry run shows what would be stored"},
	{`/services`, `^\.message: kanzen "node port`, "kube-apiserver shows its own types"},
	{`/services/[^/"]*/status`, `^code: kanzen 404.*kube-apiserver (201|200|422|409|403|500)`, "a subresource does not make its object"},
	{`/services`, `\.spec\.internalTrafficPolicy: kanzen (nothing|"Cluster")`, "kube-apiserver stores what it hides of a service of type ExternalName"},
	{`"PATCH".*dryRun=All.*apply-patch.*resourceVersion`, `^\.metadata\.resourceVersion: kanzen nothing`, "a dry run's new object has no revision"},
	{`accessreviews|selfsubjectrulesreviews`, `^\.metadata\.managedFields: kanzen nothing`, "a review is not stored"},
	{`accessreviews`, `^\.status\.reason: kanzen "RBAC: allowed by .*kube-apiserver "RBAC: allowed by `, "several bindings allow it, which come in any order"},
	{`"(PATCH|PUT)"`, `^code: kanzen 403 .* cannot create resource .*kube-apiserver (400|409|422) `, "who may not create is told so before the object is checked"},
	{`"method":"DELETE"`, `^\.details\.name: kanzen .*kube-apiserver (nothing|"Unknown")|^\.message: kanzen "\S+ \\"\S+\\" is forbidden: .*kube-apiserver "\S+ (\\"Unknown\\" )?is forbidden: `,
		"which object of a collection may not be deleted is told"},
	{`/customresourcedefinitions`, `\.metadata\.managedFields order`, "the server writes the status in the second of the definition's write, or in the next"},
	{`"POST".*/(binding|eviction|token)`, `^reviews.*\.object\.metadata\.managedFields: kanzen nothing`, "it is not stored"},
	{`/pods.*watch=1`, `\.object\.metadata\.(generation|deletionTimestamp|deletionGracePeriodSeconds): `,
		"the mark of a pod that is deleted at once is in no write: a watch that begins afterwards may not see it"},
	{`/persistentvolumeclaims.*\$\{(old|rv):`, `^code: kanzen (200|201|422) .*kube-apiserver 409 .*the object has been modified`, "the same: it is of a revision that kanzen has not"},
	{`/persistentvolumeclaims`, `\.metadata\.managedFields\.\[\S+ Apply .*: kanzen \{.*kube-apiserver nothing`, "the same, of an apply that it refused for that"},
	{``, `^(code|\.message): kanzen .*(h0\.example\.test.*kube-apiserver .*h[12]\.|h1\.example\.test.*kube-apiserver .*h[02]\.|h2\.example\.test.*kube-apiserver .*h[01]\.)example\.test`,
		"of several webhooks that refuse at the same time kube-apiserver names the one that answers first"},
	{`/customresourcedefinitions|reviews`, `\.openAPIV3Schema\..*\.(maximum|minimum|multipleOf): kanzen -?\d+, kube-apiserver \{"float":`,
		"kanzen makes CBOR of JSON, in which a bound that is a whole number is an integer"},
	{`"PUT".*/customresourcedefinitions`, `^code: kanzen 200 .*kube-apiserver 409 .*the object has been modified`, "kube-apiserver notes the names a moment after they have changed"},
	{`/(things|widgets|gizmos)/.*application/cbor`, `^Content-Type: kanzen 404 application/cbor, kube-apiserver 404 application/json$`,
		"a subresource that a definition does not switch on: there kube-apiserver has no CBOR"},
	{`apply-patch`, `^\.message: kanzen ".*failed to create typed patch object .*, kube-apiserver ".*failed to create typed patch object `,
		"which fields of several are told depends on the order of a map of Go"},
	{`example\.test`, `^code: kanzen 500 .*corrupt object.*kube-apiserver 429 .*storage is \(re\)initializing`, "kube-apiserver's cache never begins where an object cannot be read"},
	{`/serviceaccounts/.*/token`, `\.metadata\.managedFields: kanzen nothing`, "a request for a token is not stored"},
}

// allowed are the differences of a step without those that are meant to be.
func allowed(st step, all []difference) []difference {
	return slices.DeleteFunc(all, func(d difference) bool {
		for _, a := range accepted {
			if matches(a.about, st.String()) && matches(a.difference, d.String()) {
				return true
			}
		}
		return false
	})
}

var compiled = map[string]*regexp.Regexp{}

func matches(pattern, s string) bool {
	if compiled[pattern] == nil {
		compiled[pattern] = regexp.MustCompile(pattern)
	}
	return compiled[pattern].MatchString(s)
}
