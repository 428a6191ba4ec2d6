// An ordinary client, of the standard library of Go alone: compares every byte of what it gets, and waits for no answer longer than it is told.
//
//	client kept ADDRESS CONNECTIONS STREAMS COUNT SMALLEST LARGEST PATIENCE_MS
//	client put ADDRESS CONNECTIONS COUNT SMALLEST LARGEST PAUSE_MS PATIENCE_MS
//	client refused ADDRESS PATH STATUS BYTES PATIENCE_MS
//
// `kept` asks over HTTP/2 in clear text for COUNT paths /p/ID/BYTES, each twice, by so many streams on each connection. `put` stores COUNT files
// over TLS on each of so many connections (HTTP/1.1), with a pause between requests, and reads each back. `refused` uploads
// BYTES over HTTP/2 and TLS, with their length and without, has to be answered with STATUS, and then asks for /file.txt over the same connection. Says what went wrong, and ends with 1; or how much went well.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"net/http/httptrace"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

func content(id, bytes int) []byte {
	all := make([]byte, bytes)
	for at := range all {
		all[at] = byte(id*31 + at/7 + at>>8)
	}
	return all
}

func number(at int) int {
	value, err := strconv.Atoi(os.Args[at])
	if err != nil {
		panic(err)
	}
	return value
}

func fail(words string, values ...any) {
	fmt.Printf(words+"\n", values...)
	os.Exit(1)
}

func ask(client *http.Client, method, url string, sent []byte, patience time.Duration) (int, []byte, error) {
	bound, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	var body io.Reader
	if sent != nil {
		body = bytes.NewReader(sent)
	}
	request, err := http.NewRequestWithContext(bound, method, url, body)
	if err != nil {
		return 0, nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	return answer.StatusCode, got, err
}

func kept() {
	address, connections, streams, count := os.Args[2], number(3), number(4), number(5)
	smallest, largest, patience := number(6), number(7), time.Duration(number(8))*time.Millisecond
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	var next atomic.Int64
	var all sync.WaitGroup
	for connection := 0; connection < connections; connection++ {
		client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
		for stream := 0; stream < streams; stream++ {
			all.Add(1)
			go func() {
				defer all.Done()
				for {
					turn := int(next.Add(1)) - 1
					if turn >= 2*count {
						return
					}
					// Each is asked for once more when it is kept, or still being asked for by another.
					id := turn / 2
					length := smallest + id*7919%(largest-smallest+1)
					url := fmt.Sprintf("http://%s/p/%d/%d", address, id, length)
					status, got, err := ask(client, "GET", url, nil, patience)
					if err != nil || status != 200 || !bytes.Equal(got, content(id, length)) {
						fail("%s: %d, %d of %d bytes, %v", url, status, len(got), length, err)
					}
				}
			}()
		}
	}
	all.Wait()
	fmt.Printf("%d answers\n", 2*count)
}

func put() {
	address, connections, count, smallest, largest := os.Args[2], number(3), number(4), number(5), number(6)
	pause, patience := time.Duration(number(7))*time.Millisecond, time.Duration(number(8))*time.Millisecond
	var all sync.WaitGroup
	for connection := 0; connection < connections; connection++ {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		order := rand.New(rand.NewSource(int64(connection)))
		all.Add(1)
		go func() {
			defer all.Done()
			for id := connection * count; id < (connection+1)*count; id++ {
				sent := content(id, smallest+order.Intn(largest-smallest+1))
				url := fmt.Sprintf("https://%s/f%d", address, id)
				status, got, err := ask(client, "PUT", url, sent, patience)
				if err != nil || status != 201 && status != 204 {
					fail("request %d of %d bytes: %d %s %v", id, len(sent), status, got, err)
				}
				time.Sleep(pause)
				status, got, err = ask(client, "GET", url, nil, patience)
				if err != nil || status != 200 || !bytes.Equal(got, sent) {
					fail("file %d: %d, %d of %d bytes, %v", id, status, len(got), len(sent), err)
				}
				time.Sleep(pause)
			}
		}()
	}
	all.Wait()
	fmt.Printf("%d files\n", connections*count)
}

func main() {
	switch os.Args[1] {
	case "kept":
		kept()
	case "put":
		put()
	case "refused":
		refused()
	default:
		fail("what is %q?", os.Args[1])
	}
}

func refused() {
	status, size, patience := number(4), number(5), time.Duration(number(6))*time.Millisecond
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	client := &http.Client{Transport: transport}
	connections := 0
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			connections++
		}
	}}
	bound, stop := context.WithTimeout(httptrace.WithClientTrace(context.Background(), trace), patience)
	defer stop()
	ask := func(method, path string, body io.Reader) int {
		request, err := http.NewRequestWithContext(bound, method, "https://"+os.Args[2]+path, body)
		if err != nil {
			fail("%v", err)
		}
		answer, err := client.Do(request)
		if err != nil {
			fail("%s %s: %v", method, path, err)
		}
		defer answer.Body.Close()
		if _, err := io.ReadAll(answer.Body); err != nil {
			fail("%s %s: %v", method, path, err)
		}
		if answer.ProtoMajor != 2 {
			fail("%s", answer.Proto)
		}
		return answer.StatusCode
	}
	sent := make([]byte, size)
	// What is not known to have a length is sent without it.
	for _, body := range []io.Reader{bytes.NewReader(sent), io.MultiReader(bytes.NewReader(sent))} {
		if seen := ask("PUT", os.Args[3], body); seen != status {
			fail("status %d for %d", seen, status)
		}
		if seen := ask("GET", "/file.txt", nil); seen != 200 {
			fail("the next is answered with %d", seen)
		}
	}
	if connections != 1 {
		fail("%d connections", connections)
	}
}
