package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/observe/recorder"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

func whyCommand() *cobra.Command {
	var a asking
	from := ""
	cmd := &cobra.Command{
		Use:   "why KIND/NAME",
		Short: "Show who made an object, who changed what in it, and what it waits for",
		Long: `Shows what the server's flight recorder knows about an object: who made it, who
changed which field and when, what was refused and why, which controllers fight
over it, what it waits for, what is wrong with it, who owns it, and what it owns. It also works
for deleted objects.

  kanzen why deployment/web -n shop
  kanzen why namespace/shop`,
		Args: cobra.RangeArgs(1, 2),
	}
	a.add(cmd.Flags(), true)
	cmd.Flags().StringVar(&from, "from", "", "File of 'kanzen record' to read instead of asking a server.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		kind, name, ok := strings.Cut(args[0], "/")
		if len(args) == 2 {
			kind, name, ok = args[0], args[1], !ok
		}
		if !ok || kind == "" || name == "" {
			return errors.New("name one object, as KIND/NAME")
		}
		story, err := a.tellWhy(cmd.Context(), from, kind, name)
		if err != nil {
			return err
		}
		if a.output == "json" {
			return printJSON(cmd.OutOrStdout(), story)
		}
		story.print(cmd.OutOrStdout(), time.Now())
		return nil
	}
	return cmd
}

// story is what is known of an object.
type story struct {
	Object v1alpha1.ObjectReference `json:"object"`
	Kind   string                   `json:"kind,omitempty"`
	// Metadata is nil if the object is gone.
	Metadata *metav1.ObjectMeta            `json:"metadata,omitempty"`
	History  *v1alpha1.ObjectHistoryStatus `json:"history,omitempty"`
	Fights   []recorder.Fight              `json:"fights,omitempty"`
	Findings []v1alpha1.Finding            `json:"findings,omitempty"`
	Owned    []owned                       `json:"owned,omitempty"`
	Waits    []string                      `json:"waitsFor,omitempty"`
	// Conditions are those of an object that is not being deleted.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Incidents  []string           `json:"notes,omitempty"`

	unread   bool      // whether it exists is not known
	recorded *incident // the file from which it is told; nil: a server was asked
}

type owned struct {
	Resource string `json:"resource"`
	Name     string `json:"name"`
}

// tellWhy asks the server, or reads a file.
func (a *asking) tellWhy(ctx context.Context, from, kind, name string) (*story, error) {
	if from == "" {
		s, err := a.open()
		if err != nil {
			return nil, err
		}
		return s.why(ctx, kind, a.namespace, name)
	}
	r, err := readIncident(from)
	if err != nil {
		return nil, err
	}
	return r.why(kind, cmp.Or(a.namespace, metav1.NamespaceDefault), name)
}

// why collects what a file knows of an object.
func (r *recorded) why(kind, namespace, name string) (*story, error) {
	of, err := find(r.Served, kind)
	if err != nil {
		return nil, err
	}
	switch {
	case of.group == "" && of.Resource == "namespaces":
		namespace = name // as requests for a namespace have it
	case of.Scope != apidiscoveryv2.ScopeNamespace:
		namespace = ""
	}
	st := &story{Object: v1alpha1.ObjectReference{Group: of.group, Resource: of.Resource, Namespace: namespace, Name: name}, recorded: &r.incident}
	if of.ResponseKind != nil {
		st.Kind = of.ResponseKind.Kind
	}
	known, err := r.remembered()
	if err != nil {
		return nil, err
	}
	st.History = &v1alpha1.ObjectHistoryStatus{}
	st.History.Entries, st.History.Forgotten = known.History(st.Object)
	st.Fights = recorder.Fights(st.History.Entries)
	st.Findings = about(r.findings, &st.Object)
	if len(st.History.Entries) == 0 && len(st.Findings) == 0 {
		return nil, fmt.Errorf("nothing in the file is about %s %q between %s and %s", of.Resource, name, r.From.Local().Format(time.DateTime), r.To.Local().Format(time.DateTime))
	}
	return st, nil
}

// why collects what is known of an object.
func (a *asker) why(ctx context.Context, kind, namespace, name string) (*story, error) {
	all, err := a.resources(ctx)
	if err != nil {
		return nil, err
	}
	r, err := find(all, kind)
	if err != nil {
		return nil, err
	}
	if r.Scope != "Namespaced" {
		namespace = ""
	}
	st := &story{Object: v1alpha1.ObjectReference{Group: r.group, Resource: r.Resource, Namespace: namespace, Name: name}}
	if r.ResponseKind != nil {
		st.Kind = r.ResponseKind.Kind
	}
	var obj stated
	var refused *refusedError
	switch err := a.readable(ctx, r, namespace, name, "", &obj); {
	case err == nil:
		st.Metadata = &obj.Metadata
	case errors.As(err, &refused) && refused.code == http.StatusForbidden:
		st.Incidents = append(st.Incidents, "you may not read it, so only your own refused requests are told: "+err.Error())
		st.unread = true
	case !errors.As(err, &refused) || refused.code != http.StatusNotFound:
		return nil, err
	}
	history := v1alpha1.ObjectHistory{Spec: st.Object}
	history.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("ObjectHistory"))
	switch err := a.ask(ctx, http.MethodPost, "/apis/"+v1alpha1.GroupVersion().String()+"/objecthistories", "", history, &history); {
	case err == nil:
		st.History = &history.Status
		st.Fights = recorder.Fights(history.Status.Entries)
	case errors.As(err, &refused) && refused.code == http.StatusNotFound:
		st.Incidents = append(st.Incidents, a.noRecorder()+", so its history is not known")
	case errors.As(err, &refused) && refused.code == http.StatusForbidden:
		st.Incidents = append(st.Incidents, "you may not read histories: "+err.Error())
	default:
		return nil, err
	}
	if st.Metadata == nil && (st.History == nil || len(st.History.Entries) == 0) {
		if st.unread {
			return nil, errors.New(strings.Join(st.Incidents, "; "))
		}
		return nil, fmt.Errorf("there is no %s %q, and the flight recorder remembers nothing about it", r.Resource, name)
	}
	st.Findings = a.findingsOf(ctx, &st.Object)
	if st.Metadata == nil {
		return st, nil
	}
	st.state(&obj)
	var trouble []string
	st.Owned, trouble = a.owned(ctx, all, r, namespace, st.Metadata.UID)
	st.Incidents = append(st.Incidents, trouble...)
	return st, nil
}

// findingsOf returns what the server finds wrong with an object. Without the right to list findings there are none.
func (a *asker) findingsOf(ctx context.Context, o *v1alpha1.ObjectReference) []v1alpha1.Finding {
	var list v1alpha1.FindingList
	if a.get(ctx, recorderPath+"findings", &list) != nil {
		return nil
	}
	return about(list.Items, o)
}

// about returns those of some findings that are about an object.
func about(all []v1alpha1.Finding, o *v1alpha1.ObjectReference) []v1alpha1.Finding {
	same := func(of v1alpha1.ObjectReference) bool {
		return of.Group == o.Group && of.Resource == o.Resource && of.Name == o.Name && (of.Namespace == o.Namespace || o.Resource == "namespaces")
	}
	return slices.DeleteFunc(slices.Clone(all), func(f v1alpha1.Finding) bool {
		return (f.Object == nil || !same(*f.Object)) && !slices.ContainsFunc(f.Objects, same)
	})
}

// keeper names who set a finalizer, as far as field management knows.
func keeper(m *metav1.ObjectMeta, finalizer string) string {
	for _, f := range m.ManagedFields {
		if f.FieldsV1 != nil && strings.Contains(f.FieldsV1.GetRawString(), `"v:\"`+finalizer+`\""`) {
			return f.Manager
		}
	}
	return "its controller"
}

const (
	ownedWorkers = 8
	maxOwned     = 200
)

// owned finds the objects that an object owns: in its namespace, or among those without one as well.
func (a *asker) owned(ctx context.Context, all []served, of *served, namespace string, uid types.UID) (out []owned, trouble []string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	free := make(chan struct{}, ownedWorkers)
	for n := range all {
		r := &all[n]
		if !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "delete") || namespace != "" && r.Scope != "Namespaced" ||
			r.Resource == "events" || of.Resource == "namespaces" || r.group == "" && r.Resource == "endpoints" {
			continue // nobody makes endpoints owned; asking for them counts as the use of a deprecated API
		}
		wg.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			var list metav1.PartialObjectMetadataList
			err := a.readable(ctx, r, namespace, "", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", &list)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				trouble = append(trouble, fmt.Sprintf("%s could not be listed, so it is not known which of them the object owns: %v", r.Resource, err))
				return
			}
			for _, item := range list.Items {
				for _, o := range item.OwnerReferences {
					if o.UID == uid && len(out) < maxOwned {
						out = append(out, owned{r.Resource, item.Name})
					}
				}
			}
		})
	}
	wg.Wait()
	slices.SortFunc(out, func(a, b owned) int { return strings.Compare(a.Resource+"/"+a.Name, b.Resource+"/"+b.Name) })
	slices.Sort(trouble)
	return out, trouble
}

func (s *story) print(w io.Writer, now time.Time) {
	where := ""
	if s.Object.Namespace != "" && s.Object.Resource != "namespaces" {
		where = " in " + s.Object.Namespace
	}
	tell(w, "%s %s%s", s.Kind, s.Object.Name, where)
	switch m := s.Metadata; {
	case s.recorded != nil:
		tell(w, ": as recorded between %s and %s\n", s.recorded.From.Local().Format(time.DateTime), s.recorded.To.Local().Format(time.DateTime))
	case s.unread:
		tell(w, ": you may not read it\n")
	case m == nil && !s.existed():
		tell(w, ": was not created, as far as is known\n")
	case m == nil:
		tell(w, ": deleted\n")
	case m.DeletionTimestamp != nil:
		tell(w, ": terminating; its deletion began %s\n", ago(now, m.DeletionTimestamp.Time))
	default:
		tell(w, ": created %s\n", ago(now, m.CreationTimestamp.Time))
	}
	if m := s.Metadata; m != nil {
		for _, o := range m.OwnerReferences {
			tell(w, "  owned by %s %s\n", o.Kind, o.Name)
		}
	}
	s.printState(w, now)
	for _, f := range s.Findings {
		if f.Object != nil && f.Object.Resource == s.Object.Resource && f.Object.Name == s.Object.Name {
			f.Commands = slices.DeleteFunc(slices.Clone(f.Commands), func(c string) bool { return strings.HasPrefix(c, "kanzen why ") })
		}
		tell(w, "\n")
		printFinding(w, &f)
	}
	for _, f := range s.Fights {
		tell(w, "\nFIGHT over %s: set alternately %d times by\n", f.Path, f.Turns)
		for _, by := range f.Writers {
			tell(w, "  %s\n", by)
		}
	}
	if s.History != nil {
		tell(w, "\nHistory:\n")
		if s.History.Forgotten > 0 {
			tell(w, "  (%d older entries were dropped)\n", s.History.Forgotten)
		}
		s.printHistory(w, now)
		if len(s.History.Entries) == 0 {
			tell(w, "  nothing is known\n")
		}
	}
	if len(s.Owned) > 0 {
		tell(w, "\nOwns:\n")
		for _, o := range s.Owned {
			tell(w, "  %s/%s\n", o.Resource, o.Name)
		}
	}
	for _, x := range s.Incidents {
		tell(w, "\nNote: %s\n", x)
	}
}

// existed says that something was done to the object, and not only refused.
func (s *story) existed() bool {
	return s.History != nil && slices.ContainsFunc(s.History.Entries, func(e v1alpha1.HistoryEntry) bool { return e.Code < 400 })
}

// foughtShown is how many entries of a fight are shown at its beginning and at its end.
const foughtShown = 2

// printHistory prints the entries. Of a fight, which is told above, it prints the first and last ones only.
func (s *story) printHistory(w io.Writer, now time.Time) {
	all := s.History.Entries
	for n := 0; n < len(all); n++ {
		end := n
		for end < len(all) && s.fought(&all[end]) {
			end++
		}
		if end-n <= 2*foughtShown {
			printEntry(w, now, &all[n])
			continue
		}
		for i := range foughtShown {
			printEntry(w, now, &all[n+i])
		}
		tell(w, "  ... %d entries more of the fight ...\n", end-n-2*foughtShown)
		for i := range foughtShown {
			printEntry(w, now, &all[end-foughtShown+i])
		}
		n = end - 1
	}
}

// fought says that an entry is a blow in a fight: it changes nothing but the fields that are fought over.
func (s *story) fought(e *v1alpha1.HistoryEntry) bool {
	return e.Operation == "Updated" && e.Code < 400 && e.MoreFields == 0 && len(e.Fields) > 0 && !slices.ContainsFunc(e.Fields, func(f v1alpha1.FieldChange) bool {
		return !slices.ContainsFunc(s.Fights, func(x recorder.Fight) bool { return x.Path == f.Path })
	})
}

func printEntry(w io.Writer, now time.Time, e *v1alpha1.HistoryEntry) {
	what := strings.ToLower(e.Operation)
	switch {
	case e.Code >= 400:
		what = fmt.Sprintf("%s refused (%s)", e.Verb, strings.TrimSpace(fmt.Sprintf("%d %s", e.Code, e.Reason)))
	case what == "":
		what = e.Verb
	case what == "deleting":
		what = "deletion started"
	}
	if e.Subresource != "" {
		what += " of " + e.Subresource
	}
	times := ""
	if e.Count > 1 {
		times = fmt.Sprintf(", %d times since %s", e.Count, e.First.Local().Format(time.TimeOnly))
	}
	tell(w, "  %s  %s%s by %s\n", e.Last.Local().Format(time.DateTime), what, times, recorder.Writer(e))
	for _, f := range e.Fields {
		switch {
		case f.Hidden:
			tell(w, "      %s (value hidden)\n", f.Path)
		case f.Old == "":
			tell(w, "      %s: set to %s\n", f.Path, f.New)
		case f.New == "":
			tell(w, "      %s: %s removed\n", f.Path, f.Old)
		default:
			tell(w, "      %s: %s → %s\n", f.Path, f.Old, f.New)
		}
	}
	if e.MoreFields > 0 {
		tell(w, "      and %d more fields\n", e.MoreFields)
	}
	if e.Message != "" {
		tell(w, "      message: %s\n", e.Message)
	}
	if e.Unnamed {
		tell(w, "      (it was refused before its name was read, so it may have been for another object)\n")
	}
	for _, f := range e.RefusedFields {
		if !strings.Contains(e.Message, f) {
			tell(w, "      because of %s\n", f)
		}
	}
	for _, s := range e.Steps {
		result := strings.ToLower(s.Result)
		if s.Changed {
			result = "changed the object"
		}
		if s.Reason != "" {
			result += " (" + s.Reason + ")"
		}
		if s.Ignored {
			result += ", which was ignored"
		}
		if d := s.Duration.Duration; d >= slowStep {
			result += ", took " + d.Round(10*time.Millisecond).String()
		}
		tell(w, "      %s %s: %s\n", s.Kind, s.Name, result)
	}
}

// slowStep is how long a step of a write takes at least for its time to be told.
const slowStep = 100 * time.Millisecond

// ago tells a time for people.
func ago(now, t time.Time) string {
	return fmt.Sprintf("%s ago (%s)", now.Sub(t).Round(time.Second), t.Local().Format(time.DateTime))
}
