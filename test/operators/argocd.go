//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// argoCD has one program, which is what the name says by which it is called. It is of the last version whose commit gitops-engine is known by too: the module
// has it in a folder.
var argoCD = operator{
	name: "argo-cd",
	modules: []module{
		{path: "github.com/argoproj/argo-cd/v3@v3.5.3"},
		{path: "github.com/argoproj/argo-cd/gitops-engine@v0.0.0-20260914071520-c9c369efcc5b", folder: "gitops-engine"},
	},
	programs: map[string]string{"argocd": "./cmd"},
	// Debian's package of redis-server would start one on this machine. This is the same program under another name, in Debian's version.
	installed: map[string]string{"redis": "/usr/bin/redis-check-rdb"},
	places: map[string][]string{"argocd": {"/usr/local/bin/argocd", "/usr/local/bin/argocd-application-controller", "/usr/local/bin/argocd-applicationset-controller",
		"/usr/local/bin/argocd-notifications", "/usr/local/bin/argocd-repo-server", "/usr/local/bin/argocd-server"}},
	tools:    map[string]string{"/usr/local/bin/helm": "helm.sh/helm/v4/cmd/helm@v4.2.1", "/usr/local/bin/kustomize": "sigs.k8s.io/kustomize/kustomize/v5@v5.8.1"},
	packages: map[string]string{"/usr/bin/redis-check-rdb": "redis-tools", "/usr/bin/git": "git", "/usr/bin/gpg": "gpg", "/usr/bin/gpg-agent": "gpg-agent"},
	files:    map[string]string{"/usr/local/bin/gpg-wrapper.sh": "hack/gpg-wrapper.sh", "/usr/local/bin/git-verify-wrapper.sh": "hack/git-verify-wrapper.sh"},
	serve:    func(ctx context.Context, w *world) error { return w.serveGit(ctx) },
	install:  installArgo,
	leftOut: map[string]string{
		"its pages":               "the module does not have them built",
		"single sign-on":          "dex is not run: nodes say that its pod is ready",
		"git-lfs":                 "no repository here has large files",
		"logs, terminals, --core": "they need the kubelet of a pod",
		"other clusters":          "there is one",
	},
	steps: []step{
		{"its keys and its first password are in secrets", argoInitialized},
		{"its command logs in with the password, and with no other", argoLogin},
		{"an application outside its project is refused", projectConfines},
		{"an application of manifests is synced and becomes healthy", manifestsSynced},
		{"an application of a chart, with values", chartSynced},
		{"an application of a kustomization", kustomizationSynced},
		{"a push is synced when its webhook says so", pushSynced},
		{"a change by hand is undone", changeUndone},
		{"what is no longer in the repository is pruned", removedPruned},
		{"what the server refuses fails the sync with its words, until it is mended", refusalTold},
		{"a job before the sync holds it back, waves follow each other, and a job after it ends it", wavesOrdered},
		{"a definition and an object of it are one application", definitionSynced},
		{"the health of such an object is what a script says", healthScripted},
		{"fields of others stay when objects are applied by the server", serverSideApplied},
		{"what kubectl has applied by itself is taken over, and what is no longer wanted of it goes", clientSideTaken},
		{"replicas stay as a named other manager scales them", scalerRespected},
		{"what cannot change is replaced by force", immutableReplaced},
		{"an application that is not automatic shows its difference, is synced, and goes back", rolledBack},
		{"an action restarts a deployment", actionRun},
		{"a message tells of a sync", messageSent},
		{"a set makes applications of a list and of folders, and removes them", setGenerates},
		{"a sync takes the rights of the service account that the project names", syncImpersonates},
		{"an application with a finalizer takes its objects along, and one without leaves them", applicationsGone},
	},
}

const argoVersion = "argoproj.io/v1alpha1"

func installArgo(ctx context.Context, w *world) error {
	if _, err := w.push(ctx, "all of it", argoFiles); err != nil {
		return err
	}
	manifests, err := w.files("manifests/install.yaml")
	if err != nil {
		return err
	}
	if err := w.install(ctx, "argocd", namespaceOf("argocd")+manifests); err != nil {
		return err
	}
	return w.available(ctx, "argocd")
}

func argoInitialized(ctx context.Context, w *world) error {
	for name, keys := range map[string][]string{"argocd-initial-admin-secret": {"password"}, "argocd-secret": {"admin.password", "server.secretkey", "tls.crt"}, "argocd-redis": {"auth"}} {
		if err := w.eventually(ctx, "secret "+name, func(ctx context.Context) error {
			s, err := w.secret(ctx, "argocd", name)
			if err != nil {
				return err
			}
			for _, k := range keys {
				if len(s.Data[k]) == 0 {
					return fmt.Errorf("it has no %s", k)
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// argoServer is the address of its API, when it is ready.
func (w *world) argoServer(ctx context.Context) (address string, err error) {
	err = w.eventually(ctx, "argocd-server", func(ctx context.Context) error {
		addresses, err := endpoints(ctx, w.kube, "argocd-server", "argocd")
		if err != nil || len(addresses) == 0 {
			return errors.Join(err, errors.New("it has no address"))
		}
		address = net.JoinHostPort(addresses[0].String(), "8080")
		return nil
	})
	return address, err
}

// argocd runs the command of users. Its certificate is its own.
func (w *world) argocd(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program(w.l, w.operator, "argocd"), append(args, "--insecure", "--config", w.l.Run()+"/argocd")...)
	cmd.Args[0] = "argocd" // what it is depends on it
	cmd.Env = append(os.Environ(), "HOME="+w.l.Run())
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("argocd %s: %w: %s", strings.Join(args[:2], " "), err, out)
	}
	return string(out), nil
}

func argoLogin(ctx context.Context, w *world) error {
	address, err := w.argoServer(ctx)
	if err != nil {
		return err
	}
	s, err := w.secret(ctx, "argocd", "argocd-initial-admin-secret")
	if err != nil {
		return err
	}
	_, err = w.argocd(ctx, "login", address, "--username", "admin", "--password", "nonsense")
	if err := refusedWith(err, "Invalid username or password"); err != nil {
		return err
	}
	if _, err := w.argocd(ctx, "login", address, "--username", "admin", "--password", string(s.Data["password"])); err != nil {
		return err
	}
	out, err := w.argocd(ctx, "cluster", "list")
	if err == nil && !strings.Contains(out, "https://kubernetes.default.svc") {
		err = fmt.Errorf("the clusters are %s", out)
	}
	return err
}

// argoProject lets its applications go to the namespaces of a team.
const argoProject = `
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: team, namespace: argocd}
spec:
  sourceRepos: ["` + gitURL + `"]
  destinations: [{server: https://kubernetes.default.svc, namespace: team-*}]
  clusterResourceWhitelist: [{group: "", kind: Namespace}, {group: apiextensions.k8s.io, kind: CustomResourceDefinition}]`

// argoApplication is an application of a folder of the repository in the namespace team-FOLDER.
const argoApplication = `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: FOLDER, namespace: argocd, finalizers: [resources-finalizer.argocd.argoproj.io]}
spec:
  project: team
  source: {repoURL: "` + gitURL + `", targetRevision: main, path: FOLDER}
  destination: {server: https://kubernetes.default.svc, namespace: team-FOLDER}
  syncPolicy: {automated: {prune: true, selfHeal: true}, syncOptions: [CreateNamespace=true]}`

// argoApplicationOf is an application of a folder, with texts of the manifest replaced by others.
func argoApplicationOf(folder string, replace ...string) string {
	return strings.ReplaceAll(strings.NewReplacer(replace...).Replace(argoApplication), "FOLDER", folder)
}

func argoKey(name string) key { return key{argoVersion, "Application", "argocd/" + name} }

// synced waits until an application is synced and healthy.
func (w *world) synced(ctx context.Context, name string, more ...func(*unstructured.Unstructured) error) error {
	return w.until(ctx, argoKey(name), both(append(more, value("status.sync.status", "Synced"), value("status.health.status", "Healthy"), value("status.operationState.phase", "Succeeded"))...))
}

func projectConfines(ctx context.Context, w *world) error {
	elsewhere := argoApplicationOf("manifests", "namespace: team-FOLDER", "namespace: kube-system", "name: FOLDER", "name: outside")
	if err := w.apply(ctx, "", argoProject+"\n---"+elsewhere); err != nil {
		return err
	}
	if err := w.until(ctx, argoKey("outside"), func(u *unstructured.Unstructured) error {
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		if text := fmt.Sprint(conditions); !strings.Contains(text, "InvalidSpecError") || !strings.Contains(text, "do not match any of the allowed destinations") {
			return fmt.Errorf("its conditions are %s", text)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := w.delete(ctx, argoKey("outside")); err != nil {
		return err
	}
	return w.gone(ctx, argoKey("outside"))
}

func manifestsSynced(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "", argoApplicationOf("manifests")); err != nil {
		return err
	}
	if err := w.synced(ctx, "manifests"); err != nil {
		return err
	}
	if err := w.until(ctx, key{"apps/v1", "Deployment", "team-manifests/web"}, value("status.availableReplicas", 2)); err != nil {
		return err
	}
	return w.until(ctx, key{"v1", "ConfigMap", "team-manifests/settings"}, value("data.word", "hello"))
}

func chartSynced(ctx context.Context, w *world) error {
	values := `path: FOLDER, helm: {releaseName: shop, valuesObject: {replicas: 3}}`
	if err := w.apply(ctx, "", argoApplicationOf("chart", "path: FOLDER", values)); err != nil {
		return err
	}
	if err := w.synced(ctx, "chart"); err != nil {
		return err
	}
	if err := w.until(ctx, key{"apps/v1", "Deployment", "team-chart/shop-web"}, value("status.availableReplicas", 3)); err != nil {
		return err
	}
	// A chart sees the version of the server and what it serves.
	version, _, _ := strings.Cut(strings.TrimPrefix(w.version, "v"), "+")
	return w.until(ctx, key{"v1", "ConfigMap", "team-chart/shop-facts"}, func(u *unstructured.Unstructured) error {
		data, _, _ := unstructured.NestedStringMap(u.Object, "data")
		if !strings.Contains(data["version"], version) || data["applications"] != "true" {
			return fmt.Errorf("it says %v", data)
		}
		return nil
	})
}

func kustomizationSynced(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "", argoApplicationOf("kustomization", "path: FOLDER", "path: FOLDER/production")); err != nil {
		return err
	}
	if err := w.synced(ctx, "kustomization"); err != nil {
		return err
	}
	return w.until(ctx, key{"apps/v1", "Deployment", "team-kustomization/production-web"}, func(u *unstructured.Unstructured) error {
		containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
		if text := fmt.Sprint(containers); !strings.Contains(text, "dev.local/web:v2") || !strings.Contains(text, "production-words-") {
			return fmt.Errorf("its containers are %s", text)
		}
		return value("status.availableReplicas", 2)(u)
	})
}
