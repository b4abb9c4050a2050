package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// fluxConfigMap is what Flux applies; its argument is the name.
const fluxConfigMap = `apiVersion: v1
kind: ConfigMap
metadata: {name: %s, namespace: default}
`

// TestFlux applies and deletes what is in a bucket as the help topic clients describes,
// with a server of S3 on loopback.
func TestFlux(t *testing.T) {
	if os.Getenv(variable) == "" {
		t.Skip("make e2e-clients runs it")
	}
	module := filepath.Join(harness.Root(t), "e2e", "flux")
	programs := map[string]string{}
	directories := []string{
		"127.0.0.1:9090", harness.FreeAddress(t), "127.0.0.1:8082", harness.FreeAddress(t), "127.0.0.1:9442", harness.FreeAddress(t),
		"127.0.0.1:8083", harness.FreeAddress(t), "127.0.0.1:9443", harness.FreeAddress(t),
	}
	for _, name := range []string{"source-controller", "kustomize-controller"} {
		path := "github.com/fluxcd/" + name
		programs[name] = harness.Build(t, module, path, name)
		directories = append(directories, name+"-crds", filepath.Join(sources(t, module, path), "config", "crd", "bases"))
	}
	bucket := harness.StartS3(t)
	endpoint := strings.TrimPrefix(bucket.Endpoint, "http://")
	store, err := minio.New(endpoint, &minio.Options{Creds: credentials.NewStaticV4(harness.S3Key, harness.S3Secret, "")})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first", "second"} {
		content := fmt.Sprintf(fluxConfigMap, name)
		if _, err := store.PutObject(t.Context(), bucket.Bucket, name+".yaml", strings.NewReader(content), int64(len(content)), minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s := harness.Start(t)
	session := harness.NewSession(t, s)
	for name, path := range programs {
		session.Program(name, path)
	}
	session.Replace = strings.NewReplacer(append(directories,
		"s3.example.org", endpoint, "bucketName: team", "bucketName: "+bucket.Bucket,
		"KEY", "'"+harness.S3Key+"'", "SECRET", "'"+harness.S3Secret+"'",
	)...)
	scripts := harness.Scripts(t, harness.Topic("clients"), "## Flux")
	if len(scripts) != 2 {
		t.Fatalf("the section has %d scripts", len(scripts))
	}
	for _, script := range scripts {
		session.Enter(script)
	}
	exists := func(name string) error {
		_, err := s.Client().CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
		return err
	}
	for _, name := range []string{"first", "second"} {
		if err := exists(name); err != nil {
			t.Errorf("what Flux has applied: %v", err)
		}
	}
	if err := store.RemoveObject(t.Context(), bucket.Bucket, "second.yaml", minio.RemoveObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "what was removed from the bucket is deleted", func() error {
		if err := exists("second"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("get: %v", err)
		}
		return exists("first")
	})
}
