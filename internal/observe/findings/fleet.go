package findings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// Fleet is what a server knows of those that share its planes.
type Fleet struct {
	Servers []*FleetServer // by name
	Free    []FreePlane
	Moving  []MovingPlane // those that moved most often first
	Away    []AwayStorage // by class
}

// AwayStorage is a storage class of planes whose etcd does not answer.
type AwayStorage struct {
	Class  string
	Since  time.Time // when the server noticed
	Why    string
	Planes int // that lie in it
	// Some are a few of them.
	Some []string
}

// FleetServer is a server that shares planes, or one that planes name.
type FleetServer struct {
	Name  string
	Runs  bool
	Heard time.Time // the last sign of life of one that does not run; zero: none was seen
	Named int       // planes whose spec.server is this server
	// Naming are some of them.
	Naming []string
	Awake  int     // planes that it has
	Busy   int     // those of them that get requests
	Rate   float64 // requests a second to these
}

// FreePlane is a plane that no server has, for too long.
type FreePlane struct {
	Name       string
	Since      time.Time
	Last, Next string // the server that had it, and the one that is to take it; "": not known
}

// MovingPlane is a plane that went from one server to another in the last hour.
type MovingPlane struct {
	Name    string
	Moves   int
	Why     map[string]int // how often for which reason
	Between []string       // servers
}

const (
	// manyMoves is how often a plane may move in an hour: all servers may be started anew, one after another, and more than once.
	manyMoves = 6
	// muchLoad is how many requests a second all planes must get together before it matters which server has them.
	muchLoad = 50
)

// fleet looks at the servers that share planes.
func (l *look) fleet() {
	if l.Fleet == nil {
		return
	}
	f := l.Fleet()
	if f == nil {
		return
	}
	l.awayServers(f)
	l.freePlanes(f)
	l.movingPlanes(f)
	l.unevenLoad(f)
	l.awayStorage(f)
}

func planeNamed(name string) v1alpha1.ObjectReference {
	return v1alpha1.ObjectReference{Group: "planes.kanzen.io", Resource: "planes", Name: name}
}

// awayServers tells of servers that planes name, and that do not run.
func (l *look) awayServers(f *Fleet) {
	for _, s := range f.Servers {
		if s.Runs || s.Named == 0 {
			continue
		}
		found := l.find("PlaneServerAway", v1alpha1.SeverityWarning, s.Name, "server %s does not run, and %s it (spec.server)", s.Name, naming(s.Named))
		found.Impact = "any server has these planes until it is back; then they move to it"
		found.Cause = "no such server was seen lately: it was stopped, or its name is not one that status.server of planes has"
		if !s.Heard.IsZero() {
			found.Since = metav1.NewTime(s.Heard)
			found.Cause = "it has crashed, or lost etcd: its last sign of life was at " + s.Heard.UTC().Format(time.RFC3339)
		}
		for _, name := range s.Naming {
			of := planeNamed(name)
			found.facts = append(found.facts, told{text: "plane " + name + " names it", of: &of})
		}
		found.run("kubectl get planeservers")
		if len(s.Naming) > 0 {
			of := planeNamed(s.Naming[0])
			found.advice = append(found.advice, told{text: command("kanzen plane move %s --to=  # any server may have it for good", s.Naming[0]), of: &of})
		}
	}
}

func naming(n int) string {
	if n == 1 {
		return "1 plane names"
	}
	return fmt.Sprintf("%d planes name", n)
}

// freePlanes tells of planes that nobody takes.
func (l *look) freePlanes(f *Fleet) {
	for n := range f.Free {
		p := &f.Free[n]
		found := l.about("PlaneWithoutOwner", v1alpha1.SeverityError, planeNamed(p.Name), "no server has plane %s, which is to be awake", p.Name)
		found.Since = metav1.NewTime(p.Since)
		found.Impact = "its controllers stand still; a request for it wakes it, if that is possible"
		found.Cause = "all servers are being stopped"
		if p.Next != "" {
			found.Cause = "server " + p.Next + " is to take it, and does not"
		}
		if p.Last != "" {
			found.saw("server %s had it last", p.Last)
		}
		found.run("kubectl describe plane %s", p.Name)
		found.run("kubectl get planeservers")
	}
}

// movingPlanes tells of planes that find no rest.
func (l *look) movingPlanes(f *Fleet) {
	for n := range f.Moving {
		p := &f.Moving[n]
		if p.Moves < manyMoves {
			break
		}
		found := l.about("PlaneFlaps", v1alpha1.SeverityWarning, planeNamed(p.Name), "plane %s went from one server to another %d times within an hour", p.Name, p.Moves)
		found.Impact = "with each move its requests wait and its watches end"
		var why []string
		for _, reason := range slices.Sorted(maps.Keys(p.Why)) {
			why = append(why, fmt.Sprintf("%s %d times", reason, p.Why[reason]))
		}
		found.Cause = strings.Join(why, ", ") + ": Moved says that spec.server was changed, Stopped and TakenOver that servers do not stay up"
		found.saw("between %s", listed(p.Between))
		found.run("kubectl describe plane %s", p.Name)
		found.run("kanzen blame %s", "planes.planes.kanzen.io/"+p.Name)
	}
}

// unevenLoad tells of a server whose planes get far more requests than those of the others.
func (l *look) unevenLoad(f *Fleet) {
	all, running := 0.0, 0
	var most *FleetServer
	for _, s := range f.Servers {
		if !s.Runs {
			continue
		}
		running++
		all += s.Rate
		if most == nil || s.Rate > most.Rate {
			most = s
		}
	}
	if running < 2 || all < muchLoad || most.Busy < 2 { // one plane cannot be shared
		return
	}
	fair := 1 / float64(running)
	if most.Rate/all <= fair+(1-fair)/2 {
		return
	}
	found := l.find("PlanesUneven", v1alpha1.SeverityInfo, most.Name, "the planes of server %s get %.0f%% of the requests to all planes", most.Name, 100*most.Rate/all)
	found.Impact = "it works more than the other servers, which could take some of its planes"
	found.Cause = fmt.Sprintf("%d servers run, and planes stay where they were used first", running)
	for _, s := range f.Servers {
		if s.Runs {
			found.saw("%s: %s awake, %.0f requests/s", s.Name, plural(s.Awake, "plane"), s.Rate)
		}
	}
	found.run("kanzen top --planes")
	found.run("kanzen plane balance")
}

// awayStorage tells of etcds of planes that do not answer.
func (l *look) awayStorage(f *Fleet) {
	for n := range f.Away {
		s := &f.Away[n]
		if s.Planes == 0 {
			continue
		}
		found := l.find("PlaneStorageAway", v1alpha1.SeverityError, s.Class, "the etcd of the storage class %s does not answer, and %s in it", s.Class, lying(s.Planes))
		found.Since = metav1.NewTime(s.Since)
		found.Impact = "these planes answer 503; the root and all other planes go on"
		found.Cause = s.Why
		for _, name := range s.Some {
			of := planeNamed(name)
			found.facts = append(found.facts, told{text: "plane " + name + " lies there", of: &of})
		}
		found.run("kubectl get planes -o wide")
	}
}

func lying(n int) string {
	if n == 1 {
		return "1 plane lies"
	}
	return fmt.Sprintf("%d planes lie", n)
}
