package server

import (
	"context"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/base/space"
	"github.com/kanzen-io/kanzen/internal/chain/flowcontrol"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/observe/findings"
	"github.com/kanzen-io/kanzen/internal/observe/recorder"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/process/keys"
)

// This file wires what looks for what is wrong.

// findings makes the engine of findings; without a flight recorder there is none. Flow control is made later, as are the checks of
// health; backups nil: there are none.
func (b *base) findings(f flight, planes Planes, p recorder.Parts, certificates func() []keys.NamedCertificate, backups *snapshot.Scheduler, flow func() *flowcontrol.Controller, notReady func(context.Context) error,
	servers func(context.Context) (findings.Server, []findings.Server)) *findings.Engine {
	if f.Recorder == nil {
		return nil
	}
	c := findings.Config{
		Recorder: f.Recorder, Parts: p, Objects: b.objects, NotReady: notReady, Servers: servers,
		Levels: func() []flowcontrol.LevelState {
			if c := flow(); c != nil {
				return c.Levels()
			}
			return nil
		},
		Certificates: func() []findings.Certificate { return keys.Faulty(certificates(), b.process.Clock.Now()) },
		Directories:  b.directoriesInUse(), Disk: space.Of, Report: b.reportFinding,
		Clock: b.process.Clock, Guard: b.guard,
	}
	if planes != nil {
		c.Fleet = planes.State
	}
	if backups != nil {
		c.Snapshots = func() findings.Snapshots {
			state := backups.State()
			s := findings.Snapshots{Last: state.Last, Failed: state.Failed, Due: state.Due}
			if state.Err != nil {
				s.Error = state.Err.Error()
			}
			if state.KeysErr != nil {
				s.Keyless, s.KeysError = state.Keyless, state.KeysErr.Error()
			}
			return s
		}
	}
	e := findings.New(c)
	b.metrics.Register(e)
	return e
}

// directoriesInUse are the directories that this server writes to.
func (b *base) directoriesInUse() map[string]string {
	out := map[string]string{}
	if b.process.Embedded() && b.root.DataDir != "" {
		out["data directory"] = b.root.DataDir
	}
	if dir := b.root.FlightRecorderDir; dir != "" { // else it is below the data directory
		out["flight recorder"] = dir
	}
	if b.root.SnapshotDir != "" {
		out["snapshots"] = b.root.SnapshotDir
	}
	if path := b.root.AuditLog.Path; path != "" && path != "-" {
		out["audit log"] = filepath.Dir(path)
	}
	return out
}

// reportFinding makes an Event of a finding, in kube-system: errors are the administrators' business, and an Event in a namespace
// would tell of other objects to everybody who may read its Events.
func (b *base) reportFinding(ctx context.Context, f *v1alpha1.Finding) {
	now := metav1.NewTime(b.process.Clock.Now())
	e := &corev1.Event{Type: corev1.EventTypeWarning, Reason: f.Check, Message: f.Summary, FirstTimestamp: f.Since, LastTimestamp: now, Count: 1,
		Source:         corev1.EventSource{Component: "kanzen"},
		InvolvedObject: corev1.ObjectReference{Kind: "Namespace", Name: metav1.NamespaceSystem, Namespace: metav1.NamespaceSystem}}
	e.GenerateName, e.Namespace = "kanzen-finding-", metav1.NamespaceSystem
	if _, err := b.itself.Create(ctx, inprocess.Target{Resource: corev1.SchemeGroupVersion.WithResource("events"), Namespace: e.Namespace}, e); err != nil {
		b.log.Debug("a finding could not be reported as an Event", "finding", f.Name, "error", err)
	}
}
