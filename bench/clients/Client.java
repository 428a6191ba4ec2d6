import java.net.URI;
import java.net.http.*;
import java.nio.file.*;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.*;

/** As client.go. */
class Client {
    public static void main(String[] words) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(Files.newInputStream(Path.of(words[1]))));
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        HttpClient.Version version = words[2].equals("2") ? HttpClient.Version.HTTP_2 : HttpClient.Version.HTTP_1_1;
        HttpClient client = HttpClient.newBuilder().sslContext(context).version(version).build();
        for (String path : new String(System.in.readAllBytes()).split("\n")) {
            HttpResponse<byte[]> answer = client.send(HttpRequest.newBuilder(URI.create(words[0] + path)).build(), HttpResponse.BodyHandlers.ofByteArray());
            if (answer.statusCode() != 200 || answer.version() != version) throw new RuntimeException(path + " " + answer);
            Files.write(Path.of(words[3], path), answer.body());
        }
        System.exit(0);
    }
}
