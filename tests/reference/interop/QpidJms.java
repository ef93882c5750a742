// What a JMS application does, each step a line "NAME value" on standard output: java -cp JARS QpidJms.java URI
import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.qpid.jms.JmsConnectionFactory;

public final class QpidJms {
    private static final long PATIENCE_MS = 20_000;
    private static final long SILENCE_MS = 500;
    private static JmsConnectionFactory factory;

    private interface Step {
        Object run(Connection connection, String queue) throws Exception;
    }

    public static void main(String[] words) throws Exception {
        factory = new JmsConnectionFactory(words[0]);
        step("client", QpidJms::clientAcknowledge);
        step("auto", QpidJms::auto);
        step("rollback", QpidJms::rollback);
        step("commit", QpidJms::commit);
        step("anonymous", QpidJms::anonymous);
        step("temporary", QpidJms::temporary);
        step("browser", QpidJms::browser);
        step("ttl", QpidJms::timeToLive);
        step("bytes", QpidJms::bytes);
        step("async", QpidJms::listener);
    }

    /** Each on a connection and a queue of its own; a step that fails says so, and the others go on. */
    private static void step(String name, Step step) throws JMSException {
        try (Connection connection = factory.createConnection()) {
            connection.start();
            System.out.println(name + " " + step.run(connection, "jms-" + name));
        } catch (Exception error) {
            System.out.println(name + " FAILED " + error.toString().replace('\n', ' '));
        }
    }

    private static void publish(Session session, Queue queue, int first, int count) throws JMSException {
        MessageProducer producer = session.createProducer(queue);
        producer.setDeliveryMode(DeliveryMode.PERSISTENT);
        for (int number = first; number < first + count; number++) {
            TextMessage message = session.createTextMessage("text " + number);
            message.setIntProperty("number", number);
            producer.send(message);
        }
        producer.close();
    }

    /** Number, whether redelivered, and JMSXDeliveryCount of what comes, until `count` or, if it is 0, until silence. */
    private static List<String> receive(MessageConsumer consumer, int count) throws JMSException {
        List<String> got = new ArrayList<>();
        while (count == 0 || got.size() < count) {
            Message message = consumer.receive(count == 0 ? SILENCE_MS : PATIENCE_MS);
            if (message == null) {
                break;
            }
            got.add(told(message));
        }
        return got;
    }

    // The count says 2 for more as well: what a session gives back at its end may be sent to it once more before that.
    private static String told(Message message) throws JMSException {
        String mode = message.getJMSDeliveryMode() == DeliveryMode.PERSISTENT ? "" : "!";
        return mode + message.getIntProperty("number") + (message.getJMSRedelivered() ? "r" : "f")
                + Math.min(2, message.getIntProperty("JMSXDeliveryCount"));
    }

    /** Acknowledge once for three; a session closed without it gives the next three back. */
    private static Object clientAcknowledge(Connection connection, String name) throws Exception {
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        publish(session, queue, 1, 6);
        MessageConsumer consumer = session.createConsumer(queue);
        receive(consumer, 2);
        Message third = consumer.receive(PATIENCE_MS);
        third.acknowledge();
        List<String> unacknowledged = receive(consumer, 3);
        session.close();
        Session again = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        return unacknowledged + " " + receive(again.createConsumer(queue), 0);
    }

    private static Object auto(Connection connection, String name) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        publish(session, queue, 1, 3);
        MessageConsumer consumer = session.createConsumer(queue);
        List<String> got = receive(consumer, 3);
        consumer.close();
        return got + " " + receive(session.createConsumer(queue), 0);
    }

    /** A send and a receive, both undone; then the message comes again, marked. */
    private static Object rollback(Connection connection, String name) throws Exception {
        Session plain = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue(name);
        publish(plain, queue, 1, 1);
        MessageConsumer consumer = session.createConsumer(queue);
        List<String> first = receive(consumer, 1);
        publish(session, queue, 2, 1);
        session.rollback();
        List<String> second = receive(consumer, 0);
        session.commit();
        consumer.close();
        return first + " " + second + " " + receive(plain.createConsumer(queue), 0);
    }

    /** What is sent is not seen before the commit. */
    private static Object commit(Connection connection, String name) throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Session other = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        publish(session, queue, 1, 3);
        MessageConsumer consumer = other.createConsumer(queue);
        List<String> before = receive(consumer, 0);
        session.commit();
        return before + " " + receive(consumer, 3);
    }

    /** One producer without a destination, two queues. */
    private static Object anonymous(Connection connection, String name) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(null);
        List<String> got = new ArrayList<>();
        for (int number = 1; number <= 2; number++) {
            Queue queue = session.createQueue(name + number);
            Message message = session.createMessage();
            message.setIntProperty("number", number);
            producer.send(queue, message);
            got.addAll(receive(session.createConsumer(queue), 1));
        }
        return got;
    }

    /** Request and reply: JMSReplyTo is a temporary queue, the answer has the request's correlation id. */
    private static Object temporary(Connection connection, String name) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        TemporaryQueue replies = session.createTemporaryQueue();
        TextMessage request = session.createTextMessage("ping");
        request.setJMSReplyTo(replies);
        request.setJMSCorrelationID("request-1");
        session.createProducer(queue).send(request);
        TextMessage asked = (TextMessage) session.createConsumer(queue).receive(PATIENCE_MS);
        TextMessage answer = session.createTextMessage(asked.getText() + " pong");
        answer.setJMSCorrelationID(asked.getJMSCorrelationID());
        session.createProducer(null).send(asked.getJMSReplyTo(), answer);
        MessageConsumer consumer = session.createConsumer(replies);
        TextMessage heard = (TextMessage) consumer.receive(PATIENCE_MS);
        consumer.close();
        replies.delete();
        return heard.getText() + " " + heard.getJMSCorrelationID();
    }

    /** A browser takes nothing. */
    private static Object browser(Connection connection, String name) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        publish(session, queue, 1, 3);
        List<String> seen = new ArrayList<>();
        for (Object message : Collections.list(session.createBrowser(queue).getEnumeration())) {
            seen.add(told((Message) message));
        }
        return seen + " " + receive(session.createConsumer(queue), 3);
    }

    /** The first expires before anybody asks for it. */
    private static Object timeToLive(Connection connection, String name) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        MessageProducer producer = session.createProducer(queue);
        long[] lives = {200, 0, 600_000};
        for (int number = 1; number <= lives.length; number++) {
            Message message = session.createMessage();
            message.setIntProperty("number", number);
            producer.setTimeToLive(lives[number - 1]);
            producer.send(message);
        }
        Thread.sleep(600);
        return receive(session.createConsumer(queue), 0);
    }

    /** A body of 1 MiB in one message: more frames than one. */
    private static Object bytes(Connection connection, String name) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        byte[] body = new byte[1 << 20];
        for (int at = 0; at < body.length; at++) {
            body[at] = (byte) (at * 31);
        }
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(body);
        session.createProducer(queue).send(message);
        BytesMessage got = (BytesMessage) session.createConsumer(queue).receive(PATIENCE_MS);
        byte[] back = new byte[(int) got.getBodyLength()];
        got.readBytes(back);
        return java.util.Arrays.equals(body, back);
    }

    /** A listener gets them in the order of their sends. */
    private static Object listener(Connection connection, String name) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        publish(session, queue, 1, 50);
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        java.util.concurrent.CountDownLatch all = new java.util.concurrent.CountDownLatch(50);
        session.createConsumer(queue).setMessageListener(message -> {
            try {
                got.add(told(message));
            } catch (JMSException error) {
                got.add(error.toString());
            }
            all.countDown();
        });
        all.await(PATIENCE_MS, java.util.concurrent.TimeUnit.MILLISECONDS);
        return got.size() + " " + got.get(0) + " " + got.get(49);
    }
}
