package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/base/version"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

func recordCommand() *cobra.Command {
	var a asking
	since := 10 * time.Minute
	cmd := &cobra.Command{
		Use:   "record > FILE",
		Short: "Save what the server knows about the last minutes, to be looked at later",
		Long: `Writes one file with what the flight recorder, the findings, Events and the
statistics hold about the last minutes: to look at an incident later, elsewhere, or
with others. It holds what lists show to you: no values of objects and no messages
of refusals, but names, users, addresses, and Events with their messages.

  kanzen record --since 10m > incident
  kanzen diagnose --from incident
  kanzen why deployment/web -n shop --from incident
  kanzen console --from incident

The file is compressed by gzip. Each line is an object in JSON, as the API has it;
the first is of the kind Incident.`,
		Args: cobra.NoArgs,
	}
	a.addServer(cmd.Flags())
	cmd.Flags().DurationVar(&since, "since", since, "How far back requests and Events are saved.")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f, ok := cmd.OutOrStdout().(*os.File); ok {
			if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
				return errors.New("standard output is a terminal: name a file, as in kanzen record > incident")
			}
		}
		s, err := a.open()
		if err != nil {
			return err
		}
		packed := gzip.NewWriter(cmd.OutOrStdout())
		out := bufio.NewWriter(packed)
		r := &recording{asker: s, lines: json.NewEncoder(out), from: time.Now().Add(-since)}
		if err := r.write(cmd.Context()); err != nil {
			return err
		}
		if err := errors.Join(out.Flush(), packed.Close()); err != nil {
			return err
		}
		for _, x := range r.missing {
			tell(cmd.ErrOrStderr(), "Note: not saved: %s\n", x)
		}
		return nil
	}
	return cmd
}

// recording writes a file.
type recording struct {
	*asker
	lines   *json.Encoder
	from    time.Time
	missing []string
}

// write writes all lines. What may not be read is left out; without requests there is nothing to write.
func (r *recording) write(ctx context.Context) error {
	all, err := r.resources(ctx)
	if err != nil {
		return err
	}
	head := incident{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: "Incident"}, Server: r.url, Version: version.Kanzen,
		From: metav1.NewTime(r.from), To: metav1.Now(), Served: all}
	if err := r.lines.Encode(head); err != nil {
		return err
	}
	if err := r.requests(ctx); err != nil {
		return err
	}
	for _, of := range [][2]string{{"findings", "Finding"}, {"watches", "Watch"}, {"webhookstats", "WebhookStat"}, {"deprecateduses", "DeprecatedUse"}, {"trafficstats", "TrafficStat"}, {"timeseries", "TimeSeries"},
		{"views", "View"}, {"controllers", "Controller"}, {"datastores", "Datastore"}, {"prioritylevels", "PriorityLevel"}, {"definitions", "Definition"}} {
		if err := r.list(ctx, recorderPath+of[0], v1alpha1.GroupVersion().String(), of[1], nil); err != nil {
			r.missing = append(r.missing, of[0]+": "+err.Error())
		}
	}
	err = r.list(ctx, "/api/v1/events", "v1", "Event", func(raw json.RawMessage) bool {
		var e corev1.Event
		return json.Unmarshal(raw, &e) == nil && (e.LastTimestamp.After(r.from) || e.EventTime.After(r.from) || e.CreationTimestamp.After(r.from))
	})
	if err != nil {
		r.missing = append(r.missing, "events: "+err.Error())
	}
	return nil
}

// page is a part of a list.
type page struct {
	Metadata metav1.ListMeta   `json:"metadata"`
	Items    []json.RawMessage `json:"items"`
}

// mostPages bounds the pages of requests that are read, so that a server that always has another one comes to an end.
const mostPages = 2000

// requests writes the requests since the beginning. Lists have the newest first.
func (r *recording) requests(ctx context.Context) error {
	next := ""
	for range mostPages {
		var p page
		if err := r.get(ctx, recorderPath+"requests?limit=500&continue="+url.QueryEscape(next), &p); err != nil {
			var refused *refusedError
			if errors.As(err, &refused) && refused.code == http.StatusNotFound {
				return errors.New(r.noRecorder())
			}
			return err
		}
		for _, raw := range p.Items {
			var q v1alpha1.Request
			if err := json.Unmarshal(raw, &q); err != nil {
				return err
			}
			if q.Time.Time.Before(r.from) {
				if q.Time.Add(q.Duration.Duration).Before(r.from) {
					return nil // lists are in the order in which requests ended
				}
				continue // a watch may have begun long before
			}
			q.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("Request"))
			if err := r.lines.Encode(&q); err != nil {
				return err
			}
		}
		if next = p.Metadata.Continue; next == "" {
			return nil
		}
	}
	r.missing = append(r.missing, "requests: there are too many; name a shorter time with --since")
	return nil
}

// list writes the objects of a list that are wanted; nil: all are.
func (r *recording) list(ctx context.Context, path, apiVersion, kind string, wanted func(json.RawMessage) bool) error {
	var p page
	if err := r.get(ctx, path, &p); err != nil {
		return err
	}
	for _, raw := range p.Items {
		if wanted != nil && !wanted(raw) {
			continue
		}
		var obj map[string]any
		if err := json.Unmarshal(raw, &obj); err != nil {
			return err
		}
		obj["apiVersion"], obj["kind"] = apiVersion, kind
		if err := r.lines.Encode(obj); err != nil {
			return err
		}
	}
	return nil
}
