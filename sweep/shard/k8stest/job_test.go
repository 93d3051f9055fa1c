// Package k8stest decodes the job that `sweep --emit k8s` prints by the types of Kubernetes. It is a module of its own, as
// the program has no use for those types.
package k8stest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// emitted are jobs: the checked-in one, and one that the program prints now.
func emitted(t *testing.T) map[string][]byte {
	t.Helper()
	golden, err := os.ReadFile(filepath.Join("..", "testdata", "job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", "./cmd/normbench", "sweep", "--shapes", "default", "--op", "rmsnorm", "--knob", "ctas=66,132",
		"--emit", "k8s", "--shards", "5", "--out", "some folder")
	cmd.Dir = filepath.Join("..", "..", "..")
	cmd.Stderr = os.Stderr
	now, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"job.yaml": golden, "sweep --emit k8s": now}
}

// Every field is one of Kubernetes, of its type, and stands once. The Indexed Job tells each pod how many there are,
// and both Jobs see one volume.
func TestJobIsOfTheTypesOfKubernetes(t *testing.T) {
	for name, text := range emitted(t) {
		documents := bytes.Split(text, []byte("\n---\n"))
		if len(documents) != 3 {
			t.Fatalf("%s has %d documents", name, len(documents))
		}
		var claim corev1.PersistentVolumeClaim
		var sweep, merge batchv1.Job
		for i, to := range []any{&claim, &sweep, &merge} {
			if err := yaml.UnmarshalStrict(documents[i], to); err != nil {
				t.Fatalf("%s, document %d: %v", name, i+1, err)
			}
		}
		if claim.Kind != "PersistentVolumeClaim" || claim.Spec.Resources.Requests.Storage().Sign() <= 0 {
			t.Errorf("%s: %+v", name, claim)
		}
		for _, job := range []batchv1.Job{sweep, merge} {
			pod := job.Spec.Template.Spec
			if job.APIVersion != batchv1.SchemeGroupVersion.String() || job.Kind != "Job" || pod.RestartPolicy != corev1.RestartPolicyNever ||
				len(pod.Volumes) != 1 || pod.Volumes[0].PersistentVolumeClaim.ClaimName != claim.Name ||
				pod.Containers[0].VolumeMounts[0].Name != pod.Volumes[0].Name {
				t.Errorf("%s: %+v", name, job)
			}
		}
		box := sweep.Spec.Template.Spec.Containers[0]
		gpus := box.Resources.Limits["nvidia.com/gpu"]
		if *sweep.Spec.CompletionMode != batchv1.IndexedCompletion || gpus.Value() != 1 || len(box.Env) != 1 ||
			box.Env[0].Name != "JOB_COMPLETIONS" {
			t.Errorf("%s: %+v", name, sweep)
		}
		if want := map[string]int32{"job.yaml": 8, "sweep --emit k8s": 5}[name]; *sweep.Spec.Completions != want || box.Env[0].Value != string('0'+want) {
			t.Errorf("%s: %d completions, %s", name, *sweep.Spec.Completions, box.Env[0].Value)
		}
		if words := strings.Join(box.Command, " "); !strings.HasPrefix(words, "normbench sweep ") || !strings.HasSuffix(words, "--out /results") {
			t.Errorf("%s runs %q", name, words)
		}
		if script := merge.Spec.Template.Spec.Containers[0].Command; exec.Command("sh", "-n", "-c", script[2]).Run() != nil {
			t.Errorf("%s merges by %q", name, script)
		}
	}
}
