package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/server/planes"
)

const (
	// baseLoad is what a plane costs its server that is awake and gets no requests, as if it got so many a second.
	baseLoad = 1
	// leastGain is the part of the mean load of a server by which a move must bring the most and the least loaded closer together.
	leastGain = 0.1
)

func planeBalanceCommand() *cobra.Command {
	var r reached
	var yes bool
	window := 10 * time.Second
	cmd := &cobra.Command{
		Use:   "balance",
		Short: "Show which planes to move so that the servers have the same load, or move them",
		Long: `Measures for a while (--window) how many requests the planes get that are awake,
and shows which of them to move so that all servers that share an etcd have about
the same load. A plane that nobody asks counts as one request a second. With
--yes it moves them, one after another. Planes whose spec.server names a server
that runs stay there; those that were moved are free afterwards.

  kanzen plane balance
  kanzen plane balance --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if window <= 0 {
				return errors.New("--window: must be more than 0")
			}
			c, err := r.planes()
			if err != nil {
				return err
			}
			return balancePlanes(cmd, c, window, yes)
		},
	}
	r.addServer(cmd.Flags())
	cmd.Flags().DurationVar(&window, "window", window, "Time over which requests are counted.")
	cmd.Flags().BoolVar(&yes, "yes", false, "Move them.")
	return cmd
}

// balanced is a server with what it has.
type balanced struct {
	name   string
	load   float64
	awake  int
	planes []balancedPlane // that may be moved
}

type balancedPlane struct {
	name string
	load float64
}

type planeMove struct{ plane, from, to string }

func balancePlanes(cmd *cobra.Command, c *planes.Client, window time.Duration, yes bool) error {
	servers, err := measurePlanes(cmd.Context(), c, window)
	if apierrors.IsNotFound(err) {
		return errors.New("the server serves no planes (kanzen serve --planes)")
	}
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if len(servers) < 2 {
		return errors.New("fewer than two servers run that share planes: there is nothing to balance")
	}
	tellLoad(out, "before", servers)
	moves := balance(servers)
	if len(moves) == 0 {
		tell(out, "no move would make the loads more equal\n")
		return nil
	}
	tellLoad(out, "after", servers)
	for _, m := range moves {
		if !yes {
			tell(out, "kanzen plane move %s --to %s  # from %s\n", shellWord(m.plane), shellWord(m.to), m.from)
			continue
		}
		err := movePlane(cmd, c, m.plane, m.to)
		// It is to be free again, also if it did not arrive.
		if err := errors.Join(err, c.Move(context.WithoutCancel(cmd.Context()), m.plane, "")); err != nil {
			return err
		}
	}
	if !yes {
		tell(out, "nothing was moved: 'kanzen plane balance --yes' moves them, and leaves spec.server empty\n")
	}
	return nil
}

// measurePlanes returns the servers that run, and what their planes do, by name.
func measurePlanes(ctx context.Context, c *planes.Client, window time.Duration) ([]*balanced, error) {
	read := func() (out v1alpha1.PlaneStatList, err error) {
		return out, c.Do(ctx, http.MethodGet, recorderPath+"planestats?fieldSelector=state%3DAwake", "", nil, &out)
	}
	before, err := read()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if !wait(ctx, window) {
		return nil, ctx.Err()
	}
	after, err := read()
	if err != nil {
		return nil, err
	}
	seconds := time.Since(began).Seconds()
	var running v1alpha1.PlaneServerList
	if err := c.Do(ctx, http.MethodGet, recorderPath+"planeservers?fieldSelector=state%3DRunning", "", nil, &running); err != nil {
		return nil, err
	}
	wanted, err := c.Wanted(ctx)
	if err != nil {
		return nil, err
	}
	byName := map[string]*balanced{}
	var out []*balanced
	for n := range running.Items {
		if running.Items[n].Started == nil {
			continue // it tells nothing
		}
		s := &balanced{name: running.Items[n].Name}
		byName[s.name], out = s, append(out, s)
	}
	was := map[string]*v1alpha1.PlaneStat{}
	for n := range before.Items {
		was[before.Items[n].Name] = &before.Items[n]
	}
	for n := range after.Items {
		p := &after.Items[n]
		s := byName[p.Server]
		if s == nil {
			continue
		}
		load := float64(baseLoad)
		if b := was[p.Name]; b != nil && b.Server == p.Server {
			load += max(0, float64(p.Requests-b.Requests)) / seconds
		}
		s.load, s.awake = s.load+load, s.awake+1
		if byName[wanted[p.Name]] == nil {
			s.planes = append(s.planes, balancedPlane{p.Name, load})
		}
	}
	return out, nil
}

// balance moves planes from the server with most load to that with least, as long as that helps, and returns the moves. Each plane moves once.
func balance(servers []*balanced) (moves []planeMove) {
	all := 0.0
	for _, s := range servers {
		all += s.load
	}
	least := leastGain * all / float64(len(servers))
	for {
		from := slices.MaxFunc(servers, func(a, b *balanced) int { return cmp.Or(cmp.Compare(a.load, b.load), cmp.Compare(b.name, a.name)) })
		to := slices.MinFunc(servers, func(a, b *balanced) int { return cmp.Or(cmp.Compare(a.load, b.load), cmp.Compare(a.name, b.name)) })
		apart := from.load - to.load
		// The best is the one after which the two are closest.
		best := -1
		for n, p := range from.planes {
			if best < 0 || math.Abs(apart-2*p.load) < math.Abs(apart-2*from.planes[best].load) {
				best = n
			}
		}
		if best < 0 || apart-math.Abs(apart-2*from.planes[best].load) < least {
			return moves
		}
		p := from.planes[best]
		from.planes = slices.Delete(from.planes, best, best+1)
		from.load, to.load, from.awake, to.awake = from.load-p.load, to.load+p.load, from.awake-1, to.awake+1
		moves = append(moves, planeMove{p.name, from.name, to.name})
	}
}

// tellLoad prints what servers have.
func tellLoad(out io.Writer, when string, servers []*balanced) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	tell(w, "SERVER\tPLANES\tLOAD %s\n", when)
	for _, s := range servers {
		tell(w, "%s\t%d\t%s\n", s.name, s.awake, fmt.Sprintf("%.1f", s.load))
	}
	_ = w.Flush() // as all that is printed
	tell(out, "\n")
}
