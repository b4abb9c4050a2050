package faults

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// clock is the wall clock of one process. The kernel gives each process a page
// of code that tells the time (vdso(7)); here that of the server is replaced by
// code that asks the kernel and adds something. A program without libc has no
// other hook for it, and changing the machine's clock would affect all
// processes.
type clock struct {
	server *harness.Server
	memory *os.File
	add    int64 // where in the memory the seconds are
}

// askAndAdd is clock_gettime: a system call, and an addition if it was for
// CLOCK_REALTIME. Timers use CLOCK_MONOTONIC, which setting a clock does not
// change either.
var askAndAdd = []byte{
	0xb8, 0xe4, 0x00, 0x00, 0x00, // mov eax, 228
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi
	0x75, 0x0d, // jne to ret
	0x48, 0xb9, 0, 0, 0, 0, 0, 0, 0, 0, // mov rcx, seconds
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3, // ret
}

const secondsAt = 13 // in askAndAdd

func takeClock(t *testing.T, s *harness.Server) *clock {
	t.Helper()
	begin, end := vdso(t, s.PID())
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", s.PID()), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = memory.Close() }) // what was written has been checked
	code := make([]byte, end-begin)
	if _, err := memory.ReadAt(code, begin); err != nil {
		t.Fatal(err)
	}
	image, err := elf.NewFile(bytes.NewReader(code))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := image.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, symbol := range symbols {
		if symbol.Name != "__vdso_clock_gettime" {
			continue
		}
		at := begin + int64(symbol.Value)
		c := &clock{server: s, memory: memory, add: at + secondsAt}
		s.Signal(syscall.SIGSTOP)
		_, err := memory.WriteAt(askAndAdd, at)
		s.Signal(syscall.SIGCONT)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Fatal("the process does not ask for the time in this way")
	return nil
}

// vdso returns the address of the page in the process.
func vdso(t *testing.T, pid int) (begin, end int64) {
	t.Helper()
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = maps.Close() }() // only read
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if strings.HasSuffix(lines.Text(), "[vdso]") {
			if _, err := fmt.Sscanf(lines.Text(), "%x-%x", &begin, &end); err != nil {
				t.Fatal(err)
			}
			return begin, end
		}
	}
	t.Fatal("the process has no vdso")
	return 0, 0
}

// jump sets the clock to the true time plus the given duration.
func (c *clock) jump(t *testing.T, by time.Duration) {
	t.Helper()
	seconds := binary.LittleEndian.AppendUint64(nil, uint64(int64(by.Seconds())))
	c.server.Signal(syscall.SIGSTOP)
	_, err := c.memory.WriteAt(seconds, c.add)
	c.server.Signal(syscall.SIGCONT)
	if err != nil {
		t.Fatal(err)
	}
}

// TestClock: the wall clock jumps forward by a month, and back.
func TestClock(t *testing.T) {
	t.Parallel()
	s := newSite(t, harness.Options{}, 2, 1)
	server := s.start()
	clock := takeClock(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wait := s.write(ctx)
	for i, by := range []time.Duration{0, 30 * 24 * time.Hour, time.Hour, 60 * 24 * time.Hour, 0} {
		clock.jump(t, by)
		name := fmt.Sprintf("after-jump-%d", i)
		namespace, err := server.Client().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("after a jump to %s: %v", by, err)
		}
		if off := time.Until(namespace.CreationTimestamp.Time) - by; off.Abs() > 10*time.Minute {
			t.Fatalf("the clock did not jump: it is %s away", off)
		}
		harness.Eventually(t, "the controllers work", func() error {
			_, err := server.Client().CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
			return err
		})
		token, err := server.Client().CoreV1().ServiceAccounts(name).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("after a jump to %s: %v", by, err)
		}
		who(t, server, token.Status.Token, "system:serviceaccount:"+name+":default")
		if err := server.Client().CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("after a jump to %s: %v", by, err)
		}
		server.Status()
	}
	if strings.Contains(server.Log(), " ERROR ") {
		t.Error("it complains; see the log")
	}
	cancel()
	wait()
	server.Kill()
	s.start()
	s.check()
}

// TestJournalWithAWrongClock: S3 refuses requests of a server whose clock is wrong. The
// status has the remedy, the server goes on, and the journal catches up when the clock is
// set.
func TestJournalWithAWrongClock(t *testing.T) {
	t.Parallel()
	store := harness.StartS3(t)
	s := harness.Start(t, "--config", harness.ConfigFile(t, fmt.Sprintf("journal: {destination: %q, endpoint: %q, region: us-east-1, credentialsFile: %q, interval: 100ms}\n",
		store.URL("mini"), store.Endpoint, store.CredentialsFile)))
	awaitJournaled(t, s)
	clock := takeClock(t, s)
	clock.jump(t, time.Hour)
	maps := s.Client().CoreV1().ConfigMaps("default")
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "later"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the status has the remedy", func() error {
		if text := s.Status(); !strings.Contains(text, "FAILED") || !strings.Contains(text, "this machine's clock differs too much from the server's: set it") {
			return fmt.Errorf("it is %s", text)
		}
		return nil
	})
	clock.jump(t, 0)
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "last"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitJournaled(t, s)
	s.Kill()
	dir := filepath.Join(t.TempDir(), "data")
	out, code := harness.CLIWith(t, store.Env, "backup", "restore", "--data-dir", dir, "--from", store.URL("mini"), "--endpoint", store.Endpoint, "--region", "us-east-1")
	if code != harness.ExitOK {
		t.Fatalf("the restore exits with %d: %s", code, out)
	}
	harness.Contains(t, out, "chain 1 of")
	again := harness.StartIn(t, dir)
	for _, name := range []string{"later", "last"} {
		if _, err := again.Client().CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// who checks which user the server authenticates by the token.
func who(t *testing.T, s *harness.Server, token, want string) {
	t.Helper()
	config := s.RESTConfig()
	config.BearerToken, config.CertData, config.KeyData, config.CertFile, config.KeyFile = token, nil, nil, "", ""
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username != want {
		t.Errorf("a fresh token is that of %q, %v", review.Status.UserInfo.Username, err)
	}
}
