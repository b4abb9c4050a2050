// Command supervise starts what a systemd unit would start, on machines where
// systemd is not the first process: with the unit's user, umask, state
// directory and notify socket, without privileges. It prints each
// notification, forwards SIGTERM, and ends with the exit code of the service.
// It is for the tests of the packages and knows only what their unit uses.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// watchdog is short, so that a test sees the service feed it.
const watchdog = "WATCHDOG_USEC=1000000"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: supervise UNIT-FILE")
		os.Exit(64)
	}
	code, err := run(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "supervise:", err)
	}
	os.Exit(code)
}

// run returns the service's exit code, or 65 and why it was not started.
func run(path string) (int, error) {
	unit, err := readUnit(path)
	if err != nil {
		return 65, err
	}
	uid, gid, err := account(unit["User"])
	if err != nil {
		return 65, err
	}
	mask, err := strconv.ParseUint(unit["UMask"], 8, 32)
	if err != nil {
		return 65, fmt.Errorf("UMask: %w", err)
	}
	if err := stateDirectory(unit, uid, gid); err != nil {
		return 65, err
	}
	socket, err := listen(uid)
	if err != nil {
		return 65, err
	}
	defer os.Remove(socket.LocalAddr().String())
	go report(socket)

	syscall.Umask(int(mask))
	cmd := exec.Command("setpriv", append([]string{
		"--reuid", unit["User"], "--regid", unit["Group"], "--init-groups",
		"--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--",
	}, strings.Fields(unit["ExecStart"])...)...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "NOTIFY_SOCKET=" + socket.LocalAddr().String(), watchdog}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if err := cmd.Start(); err != nil {
		return 65, err
	}
	go func() {
		<-signals
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 65, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

// readUnit returns the settings of the [Service] section; the last one wins.
func readUnit(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	unit, section := map[string]string{}, ""
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			section = line
			continue
		}
		name, value, found := strings.Cut(line, "=")
		if found && section == "[Service]" && !strings.HasPrefix(line, "#") {
			unit[name] = value
		}
	}
	for _, name := range []string{"ExecStart", "User", "Group", "UMask", "StateDirectory", "StateDirectoryMode"} {
		if unit[name] == "" {
			return nil, fmt.Errorf("%s does not set %s", path, name)
		}
	}
	return unit, lines.Err()
}

func account(name string) (uid, gid int, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, err
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return uid, gid, errors.Join(err1, err2)
}

func stateDirectory(unit map[string]string, uid, gid int) error {
	mode, err := strconv.ParseUint(unit["StateDirectoryMode"], 8, 32)
	if err != nil {
		return fmt.Errorf("StateDirectoryMode: %w", err)
	}
	dir := filepath.Join("/var/lib", unit["StateDirectory"])
	return errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, os.FileMode(mode)), os.Chown(dir, uid, gid))
}

// listen makes the socket that the service notifies.
func listen(uid int) (*net.UnixConn, error) {
	path := fmt.Sprintf("/run/supervise-%d", os.Getpid())
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	return socket, os.Chown(path, uid, -1)
}

func report(socket *net.UnixConn) {
	buffer := make([]byte, 4096)
	for {
		n, err := socket.Read(buffer)
		if err != nil {
			return
		}
		fmt.Println("notified:", strings.ReplaceAll(string(buffer[:n]), "\n", " "))
	}
}
