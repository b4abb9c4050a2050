package early

import "syscall"

// become is not used: a process cannot become another program.
func become() { syscall.Exit(codeNotExecutable) }

// readAll reads to the end of the input, or to an error.
func readAll(file syscall.Handle) (text []byte) {
	buffer := make([]byte, 4096)
	for {
		n, err := syscall.Read(file, buffer)
		if n <= 0 || err != nil {
			return text
		}
		text = append(text, buffer[:n]...)
	}
}
