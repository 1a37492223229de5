//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// space is what a spec has for itself: a namespace that enforces the restricted pod security standard, and a bucket.
type space struct {
	t         *testing.T
	namespace string
	bucket    string
	recorder  *recorder
	kept      *kept
}

// newSpace makes a space. When the spec ends, what Holdfast left in it is checked and the space is removed.
func newSpace(t *testing.T, purpose string) *space {
	t.Helper()
	return newNamedSpace(t, purpose, "e2e-"+purpose+"-"+rand.String(5))
}

func newNamedSpace(t *testing.T, purpose, name string) *space {
	t.Helper()
	s := &space{t: t, namespace: name, bucket: "e2e-" + purpose + "-" + rand.String(5), kept: newKept()}
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		labelSuite:                           purpose,
		"pod-security.kubernetes.io/enforce": "restricted",
	}}})
	s.recorder = startRecorder(name)
	t.Cleanup(s.finish)
	if err := env.store.MakeBucket(t.Context(), s.bucket, minio.MakeBucketOptions{}); err != nil {
		t.Fatalf("the bucket %s cannot be made: %v", s.bucket, err)
	}
	s.storeSecrets()
	return s
}

// forSubtest is the same space, seen from a subtest.
func (s *space) forSubtest(t *testing.T) *space {
	sub := *s
	sub.t = t
	return &sub
}

func (s *space) storeSecrets() {
	s.secret("s3", map[string]string{
		"accessKeyID":     env.access.accessKeyID,
		"secretAccessKey": env.access.secretAccessKey,
	})
	s.secret("s3-ca", map[string]string{"ca.crt": string(env.access.ca)})
}

// storage is the space's bucket, as a backup names it.
func (s *space) storage() v1alpha1.StorageSpec {
	return v1alpha1.StorageSpec{S3: &v1alpha1.S3Bucket{
		S3Access: s.storeAccess(), Bucket: s.bucket, Prefix: "prod",
	}}
}

func (s *space) storeAccess() v1alpha1.S3Access {
	return v1alpha1.S3Access{
		Provider:             v1alpha1.S3ProviderS3Compatible,
		Endpoint:             minioEndpoint,
		CredentialsSecretRef: v1alpha1.SecretRef{Name: "s3"},
		CASecretRef:          v1alpha1.SecretKeyRef{Name: "s3-ca"},
	}
}

func (s *space) create(obj client.Object) {
	s.t.Helper()
	if err := env.kube.Create(s.t.Context(), obj); err != nil {
		s.t.Fatalf("%T %s/%s cannot be made: %v", obj, obj.GetNamespace(), obj.GetName(), err)
	}
}

func (s *space) secret(name string, data map[string]string) {
	s.t.Helper()
	s.create(&corev1.Secret{ObjectMeta: s.meta(name), StringData: data})
}

func (s *space) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: name}
}

// put lays an object of the test's own into the bucket and returns its URL.
func (s *space) put(key string, content []byte) string {
	s.t.Helper()
	_, err := env.store.PutObject(s.t.Context(), s.bucket, key, strings.NewReader(string(content)),
		int64(len(content)), minio.PutObjectOptions{})
	if err != nil {
		s.t.Fatalf("%s/%s cannot be put: %v", s.bucket, key, err)
	}
	s.kept.add(key)
	return "s3://" + s.bucket + "/" + key
}

// remove deletes an object and waits until it is gone.
func (s *space) remove(obj client.Object) {
	s.t.Helper()
	err := env.kube.Delete(s.t.Context(), obj, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatalf("%T %s cannot be deleted: %v", obj, obj.GetName(), err)
	}
	awaitGone(s.t, obj)
}

// finish checks what is left in the space, shows it when the spec failed, and removes it. The namespace is not waited
// for: the last check of the suite waits for all of them.
func (s *space) finish() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if !s.t.Failed() {
		s.checkLeftovers(ctx)
	}
	s.recorder.stop()
	s.checkSecrets(ctx)
	if s.t.Failed() {
		s.t.Log(s.dump(ctx))
		if env.keep {
			s.t.Logf("KEEP=1: the namespace %s and the bucket %s stay", s.namespace, s.bucket)
			return
		}
	}
	s.discard(ctx)
}

func (s *space) discard(ctx context.Context) {
	err := env.kube.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	if err != nil && !apierrors.IsNotFound(err) {
		s.t.Errorf("the namespace %s cannot be deleted: %v", s.namespace, err)
	}
	// An agent that is just being ended may still write.
	if _, ok := tryAwait(ctx, 10*time.Second, func(ctx context.Context) (bool, string) {
		err := removeBucket(ctx, s.bucket)
		return err == nil, "not removed"
	}); !ok {
		s.t.Errorf("the bucket %s cannot be removed", s.bucket)
	}
}
