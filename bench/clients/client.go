// Fetches every path of standard input from the address of the first argument, whose CA is the second, by the protocol of the third, into the directory of the fourth.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

func main() {
	pem, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: os.Args[3] == "2"}
	if os.Args[3] == "1" {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	client := &http.Client{Transport: transport}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer, err := client.Get(os.Args[1] + lines.Text())
		if err != nil {
			panic(err)
		}
		if fmt.Sprint(answer.ProtoMajor) != os.Args[3] || answer.StatusCode != 200 {
			panic(answer.Proto + " " + answer.Status)
		}
		content, err := io.ReadAll(answer.Body)
		if err != nil {
			panic(err)
		}
		answer.Body.Close()
		if err := os.WriteFile(filepath.Join(os.Args[4], lines.Text()), content, 0o644); err != nil {
			panic(err)
		}
	}
}
